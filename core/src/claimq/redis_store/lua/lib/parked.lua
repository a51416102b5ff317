-- Reads which clients are parked (lib/park.lua).
local BAND = 2251799813685248  -- 2^51, more than any instant

-- When the first of the parked clients may start an item; nil: none is parked for a time.
local function first_unparked(q)
  local first
  for band = 0, 1 do
    local from = PARKED + band * BAND
    local score = redis.call('ZRANGEBYSCORE', q.clients, whole(from), whole(from + LAST_MS), 'LIMIT', '0',
      '1', 'WITHSCORES')[2]
    if score and tonumber(score) < from + LAST_MS then first = math.min(first or LAST_MS, score - from) end
  end
  return first
end
