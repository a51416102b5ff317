-- Counts that claims end, while bounds on items in progress hold that are counted (lib/park.lua). It comes
-- before they are removed. Where a lease has lost its item, and so its client, all are counted again by the
-- next claim. Returns the clients that may start an item again.
local function count_ends(q, busy, tokens)
  -- include client_of cost_of slices start_limits bands in_progress count_again
  local _, _, counting, _, limits = read_bands(q)
  local key, sums, names, seen, is_lost = q.base .. 'in_progress', new_sums(limits), {}, {}, false
  local is_counted = counting == '' or string.sub(busy, #q.base + 6) <= string.sub(counting, 2)
  sliced(is_counted and tokens or {}, function(...)
    for i, envelope in ipairs(redis.call('HMGET', busy, ...)) do
      local token = select(i, ...)
      if envelope and not seen[token] then sums.add(envelope) end
      seen[token], is_lost = true, is_lost or not envelope and redis.call('ZSCORE', q.leases, token)
    end
  end)
  for field, sum in pairs(sums.fields) do
    local left = redis.pcall('HINCRBY', key, field, whole(-sum))
    if type(left) ~= 'number' then left = 0 end  -- another client has set it
    if left <= 0 then redis.pcall('HDEL', key, field) end
    local of_cost = string.match(field, '^cost (.*)$')
    if of_cost or left < sums.most and left + sum >= sums.most then names[#names + 1] = of_cost or field end
  end
  if is_lost then count_again(q) end
  return names
end
