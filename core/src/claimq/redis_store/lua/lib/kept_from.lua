-- How many free slots are kept from a client; 0: it waits for another reason. held: items in progress. Reads
-- only.
local function kept_from(q, name, held)
  -- include share_numbers reserve
  local config = redis.call('HMGET', q.base .. 'config', 'fairness_by', 'fairness_reserve')
  local reserve = read_reserve(q)
  local free, kept = reserve.slots - held, kept_slots(reserve.slots, setting(config[2], 0.1, 0, 0.5))
  if config[1] == 'count' or not is_kept(q, reserve.quiet_at) or free < 1 or free > kept then return 0 end
  local share = redis.pcall('HGET', q.base .. 'shares', name)
  local _, _, count, mean, weight, drained_at = share_numbers(type(share) == 'string' and share)
  mean = (mean or 0) / 64
  local room = quiet_room(q, reserve.rate * (weight or 1), count or 0, math.max(mean, 1), drained_at or 0,
    mean == 0)
  return room < 1 and (mean == 0 or mean >= SHORT_MS) and free or 0
end
