-- Items that wait, by their places.
-- The list in which the item at a place of all that a client has in main stands, its place there, and the length of that list. Nil behind the last.
local function list_at(q, client, position)
  for _, list in ipairs(lists_of(q, client)) do
    local length = redis.call('LLEN', list)
    if position < length then return list, position, length end
    position = position - length
  end
end

-- Up to `count` envelopes that wait in one state, main (of one client) or delayed, after the first `skip` of them.
local function read_waiting(q, state, client, skip, count, largest)
  if state ~= 'main' then
    return read_within(q, count, function(read, more)
      return redis.call('ZRANGE', q.delayed, whole(skip + read), whole(skip + read + more - 1))
    end)
  end
  local lists, got = lists_of(q, client), {}
  for i, list in ipairs(lists) do
    local length = #lists > 1 and redis.call('LLEN', list) or math.huge
    if skip < length and #got < count and has_room(q, 0) then
      for _, envelope in ipairs(read_oldest(q, list, skip, count - #got, largest)) do got[#got + 1] = envelope end
    end
    skip = math.max(skip - length, 0)
  end
  return got
end
