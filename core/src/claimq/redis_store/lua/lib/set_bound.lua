-- Begins and ends the count of bytes that wait (lib/weights.lua). It costs the same however many items wait.

-- The mean size of what waits, and whether anything waits. The sample: up to 32 items at either end of each
-- list without a client, 4 of each list of 16 clients, and 64 of delayed, until 2 MiB have been read.
local function mean_size(q)
  local few = math.max(1, math.min(32, math.floor(CALL_BYTES / 256 / math.max(q.largest, 1))))
  local sums, left = {count = 0, bytes = 0}, CALL_BYTES
  local function page(list, first, last)
    local envelopes = left > 0 and redis.call('LRANGE', list, whole(first), whole(last)) or {}
    for _, envelope in ipairs(envelopes) do left = left - #envelope end
    return envelopes
  end
  local function add(count, ...)
    local read, bytes = 0, 0
    for _, envelopes in ipairs({...}) do
      for _, envelope in ipairs(envelopes) do read, bytes = read + 1, bytes + #envelope end
    end
    if read > 0 then sums.count, sums.bytes = sums.count + count, sums.bytes + count * bytes / read end
  end
  for _, list in ipairs(lists_of(q, '-')) do
    add(redis.call('LLEN', list), page(list, 0, few - 1), page(list, -few, -1))
  end
  local pages = {}
  for _, client in ipairs(redis.call('ZRANGE', q.heads, 0, 15)) do
    for _, list in ipairs(lists_of(q, client)) do
      pages[#pages + 1] = page(list, -math.min(few, 4), -1)
    end
  end
  add(q.client_items, unpack(pages))
  add(redis.call('ZCARD', q.delayed), redis.call('ZRANGE', q.delayed, 0, whole(2 * few - 1)))
  return sums.count > 0 and math.ceil(sums.bytes / sums.count) or 0, sums.count > 0
end

-- The field `bound` of stats under a policy, nil for none. value(field): a field of the policy as config has
-- it, "" for none. Reads only.
local function bound_for(q, value)
  local function is_set(unit)
    return value('max_waiting_' .. unit) .. value('max_waiting_per_client_' .. unit) ~= ''
  end
  if not is_set('bytes') then return is_set('items') and '1' or nil end
  if q.weighs then return q.bound end
  local mean, has_items = mean_size(q)
  -- What waits now counts with the mean size, what comes later with its own.
  return '0 0 0 0 ' .. whole(has_items and q.now + 1 or 0) .. ' ' .. whole(mean)
end

-- To free the counts of 200,000 clients takes a server up to 80 ms. While no bytes are counted they are of no
-- use, so repair.lua removes them in portions.
local function set_bound(q, bound)
  if bound == q.bound then return end
  if bound then redis.call('HSET', q.stats, 'bound', bound) else redis.call('HDEL', q.stats, 'bound') end
  local key = q.base .. 'bytes'
  local clients = redis.pcall('HLEN', key)
  local waits = (bound or '1') == '1' and type(clients) == 'number' and clients > CALL_ITEMS
  if not waits then redis.call('DEL', key) end
end
