-- Walks through failed in order of failing. The place is an instant and how many of that instant have been
-- passed over, not a rank: the server finds a rank by counting from the start, so that passing over n items
-- in chunks would cost n * n.
local function page_of(failed, from, skip, until_ms, count)
  local page = redis.call('ZRANGEBYSCORE', failed, from, until_ms, 'WITHSCORES', 'LIMIT', whole(skip),
    whole(count))
  local ids, scores = {}, {}
  for i = 1, #page, 2 do ids[#ids + 1], scores[#scores + 1] = page[i], page[i + 1] end
  return ids, scores
end

-- The place after an item that stays in failed; a score of nil is an item that was named and not walked to.
local function passed(from, skip, score)
  if not score or score == from then return from, skip + 1 end
  return score, 1
end

-- "COUNT LOOKED_AT NOW FROM SKIP MORE": how far the walk got.
local function walk_text(q, count, looked, from, skip, more)
  return format_text('%d %d %d ', count, looked, q.now) .. from .. ' ' .. whole(skip)
    .. (more and ' 1' or ' 0')
end
