-- Whether items may be claimed, from the fields paused, paused_until and suspended of the config.

-- 0: they may; 1: suspended; 2: paused by hand (paused is "1"), 4: closed by an app ("2"), 3 and 5: both. And
-- when the pause ends by itself, in ms by the queue's clock; nil: it does not.
local function paused_of(q, paused, ends, suspended)
  ends = setting(ends, nil, 0, LAST_MS)
  local kind = (not ends or ends > q.now) and (paused == '1' and 2 or paused == '2' and 4) or 0
  return (suspended == '1' and 1 or 0) + kind, ends
end
