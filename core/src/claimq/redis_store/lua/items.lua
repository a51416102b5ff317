#!lua flags=no-writes
-- Purpose: a page of the items of busy, delayed or failed, oldest first (busy by lease end, delayed by due
--   time, failed by failing), or of failed, newest first.
-- KEYS: 1 cq:{NAME}:main; derived: leases, delayed, failed (ZSET), busy:WORKER, failed:items (HASH)
-- ARGV: 1 state or "newest", 2 skip, 3 count, 4 and 5 as 1 and 2 of new_outline, or ""
-- Replies: {0|1 whether it stopped at 2 MiB before the end of the page, then for each: NAME (token, field in
--   failed, or ""), score in ms, envelope, outline or false}
-- Cost: O(log n + count)
-- include limits numbers clock look counts room read_within keeper outline

local q = look_at(KEYS[1])
local state, skip, count = ARGV[1], tonumber(ARGV[2]), count_of(ARGV[3], 1)
local reply, outline = {0}, new_outline(ARGV[4], ARGV[5])
local function add(name, score, envelope)
  reply[#reply + 1] = name; reply[#reply + 1] = score; reply[#reply + 1] = outline(envelope)
  return has_room(q, #(envelope or ''))
end
if state == 'delayed' then
  local scores = {}
  local envelopes = read_within(q, count, function(read, more)
    local first, page = skip + read, {}
    local rows = redis.call('ZRANGE', q.delayed, whole(first), whole(first + more - 1), 'WITHSCORES')
    for i = 1, #rows, 2 do page[#page + 1], scores[#scores + 1] = rows[i], rows[i + 1] end
    return page
  end)
  if #envelopes < count and not has_room(q, 0) then reply[1] = 1 end
  for i, envelope in ipairs(envelopes) do add('', scores[i], envelope) end
  return reply
end
if state == 'busy' then count = math.min(count, busy_count(q) - skip) end  -- the last of the leases is KEEPER
local key, page = state == 'busy' and q.leases or q.base .. 'failed', {}
if count > 0 and state == 'newest' then
  page = redis.call('ZRANGE', key, whole(skip), whole(skip + count - 1), 'REV', 'WITHSCORES')
elseif count > 0 then
  page = redis.call('ZRANGE', key, whole(skip), whole(skip + count - 1), 'WITHSCORES')
end
for i = 1, #page, 2 do
  local name = page[i]
  local key = state == 'busy' and 'busy:' .. (string.match(name, '^(.*)/') or '') or 'failed:items'
  if not add(name, page[i + 1], redis.call('HGET', q.base .. key, name)) and i + 1 < #page then
    reply[1] = 1
    break
  end
end
return reply
