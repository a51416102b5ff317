-- Whether items may be claimed, from the fields paused, paused_until and suspended of the config.

-- 0: they may; 1: suspended; 2: paused; 3: both. And when the pause ends by itself, in ms by the queue's
-- clock; nil: it does not.
local function paused_of(q, paused, ends, suspended)
  ends = setting(ends, nil, 0, LAST_MS)
  local is_paused = paused == '1' and (not ends or ends > q.now)
  return (suspended == '1' and 1 or 0) + (is_paused and 2 or 0), ends
end
