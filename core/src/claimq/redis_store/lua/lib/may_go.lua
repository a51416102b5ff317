-- Whether the cost of the first held item of a key fits beside those of its items in progress.
local function fits_key(q, key, sum)
  -- include start_limits cost_bounds key_rates
  local key_rates = key_rates_of(q, q.has_keys, {[key] = sum})
  return not key_rates or key_rates.next_start(key) ~= math.huge
end

-- Whether the first held item of a key may go on.
local function may_go(q, key)
  local live, sum = live_tokens(q, redis.call('HGET', q.base .. 'keys', key))
  return #live < most_of_key(q) and not limited_keys(q, {key})[key]
    and (sum == 0 or not string.find(q.has_keys or '', ' cost', 1, true) or fits_key(q, key, sum))
end
