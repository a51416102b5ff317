-- Gives parked clients their turns back (lib/park.lua).
local UNPARKED = 1000  -- at most so many in one call

-- Those with a score from PARKED + `from` to PARKED + `to`; returns how many they are.
local function unpark(q, from, to)
  local clients = redis.call('ZRANGEBYSCORE', q.clients, whole(PARKED + from), whole(PARKED + to),
    'LIMIT', 0, UNPARKED)
  sliced(entry_tags(q, clients), function(...) redis.call('ZADD', q.clients, ...) end)
  q.has_written = q.has_written or #clients > 0
  return #clients
end
