-- Gives parked clients their turns back (lib/park.lua).
local UNPARKED = 1000  -- at most so many in one call

-- Those with a score from PARKED + `from` to PARKED + `to`; returns how many they are.
local function unpark(q, from, to)
  local clients, tags = redis.call('ZRANGEBYSCORE', q.clients, whole(PARKED + from), whole(PARKED + to),
    'LIMIT', 0, UNPARKED), {}
  for i, client in ipairs(clients) do tags[2 * i - 1], tags[2 * i] = whole(next_tag(q)), client end
  sliced(tags, function(...) redis.call('ZADD', q.clients, ...) end)
  return #clients
end
