-- Those of the keys whose rates let an item start now. Notes when the held items of the others may.
local function startable(q, waiting)
  -- include slices start_limits key_rates
  local key_rates, others, limited = new_key_rates(q, limits_of(q.has_keys, 'key')), {}, {}
  key_rates.look(waiting)
  for _, key in ipairs(waiting) do
    local start = key_rates.next_start(key)
    if not start then others[#others + 1] = key
    elseif first_held(q, key) then limited[#limited + 1], limited[#limited + 2] = whole(start), key end
  end
  sliced(limited, function(...) redis.call('ZADD', q.base .. 'limited', ...) end)
  if #limited > 0 then leave_wake_token(q) end  -- one of those that sleep waits for the instant
  return others
end
