-- Counts that claims end, while limits on items in progress hold per client (lib/park.lua). It comes before
-- they are removed. Where a lease has lost its item, and so its client, all are counted again by the next
-- claim. Returns the clients that may start an item again.
local function count_ends(q, busy, tokens)
  -- include client_of slices limits_tail count_again
  local _, _, counting, _, limits = read_tail(q)
  local key, most, names, counts, seen, is_lost = q.base .. 'in_progress', math.huge, {}, {}, {}, false
  for number in string.gmatch(limits, ' client busy (%d+)') do most = math.min(most, tonumber(number)) end
  local is_counted = counting == '' or string.sub(busy, #q.base + 6) <= string.sub(counting, 2)
  sliced(is_counted and tokens or {}, function(...)
    for i, envelope in ipairs(redis.call('HMGET', busy, ...)) do
      local token = select(i, ...)
      local name = envelope and not seen[token] and client_of(envelope) or '-'
      seen[token], is_lost = true, is_lost or not envelope and redis.call('ZSCORE', q.leases, token)
      if name ~= '-' then counts[name] = (counts[name] or 0) + 1 end
    end
  end)
  for name, count in pairs(counts) do
    local left = redis.pcall('HINCRBY', key, name, whole(-count))
    if type(left) ~= 'number' then left = 0 end  -- another client has set it
    if left <= 0 then redis.pcall('HDEL', key, name) end
    if left < most and left + count >= most then names[#names + 1] = name end
  end
  if is_lost then count_again(q) end
  return names
end
