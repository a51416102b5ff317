-- Those of the keys whose limits let the first held item start now. Notes when those of the others may by
-- their rates. sums: key -> what its items in progress cost.
local function startable(q, waiting, sums)
  -- include slices start_limits cost_bounds key_rates
  local key_rates, others, limited = key_rates_of(q, q.has_keys, sums), {}, {}
  if not key_rates then return waiting end  -- another client has written the limits
  key_rates.look(waiting)
  for _, key in ipairs(waiting) do
    local start = key_rates.next_start(key)
    if not start then others[#others + 1] = key
    elseif start < math.huge and first_held(q, key) then
      limited[#limited + 1], limited[#limited + 2] = whole(start), key
    end
  end
  sliced(limited, function(...) redis.call('ZADD', q.base .. 'limited', ...) end)
  if #limited > 0 then leave_wake_token(q) end  -- one of those that sleep waits for the instant
  return others
end
