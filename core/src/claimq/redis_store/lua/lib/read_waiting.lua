-- Reads items that wait, by their places.

-- Returns the list that has the item at this place of all items of a client in main, the place of the item in
-- that list, and the length of the list. Returns nil behind the last item.
local function list_at(q, client, position)
  for _, list in ipairs(lists_of(q, client)) do
    local length = redis.call('LLEN', list)
    if position < length then return list, position, length end
    position = position - length
  end
end

-- Up to `count` envelopes that wait in one state, main (of one client) or delayed, after the first `skip` of
-- them.
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
      for _, envelope in ipairs(read_oldest(q, list, skip, count - #got, largest)) do
        got[#got + 1] = envelope
      end
    end
    skip = math.max(skip - length, 0)
  end
  return got
end
