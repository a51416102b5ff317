-- The bound on what waits (max_waiting of the policy): items and bytes in main and in delayed, of the queue
-- and of each client. It refuses new items only: what is requeued, given back, due or follows from an item is
-- stored all the same.

-- Items and bytes that wait, from counts as in lib/weights.lua and the number of items. What is not counted
-- has the mean size.
local function waiting_of(q, counts, items)
  local mean = q.weighs and weights_of(q).mean or 0
  return {items, counts[2] + counts[4] + math.max(0, items - counts[1] - counts[3]) * mean}
end

local function add_sizes(added, envelopes)
  added[1] = added[1] + #envelopes
  for i = 1, #envelopes do added[2] = added[2] + #envelopes[i] end
end

-- The refusal of new items of a queue: {"FULL", its place in KEYS, client ("": all items), "items" or
-- "bytes", how many wait, the bound, how many are new}, or nil. Costs O(items).
local function over_bound(q, place, groups)
  local added, clients, added_of = {0, 0}, {}, {}
  for _, group in ipairs(groups) do
    local client = group.client
    if group.queue == q and #group.envelopes > 0 then
      if not added_of[client] then clients[#clients + 1], added_of[client] = client, {0, 0} end
      add_sizes(added, group.envelopes)
      add_sizes(added_of[client], group.envelopes)
    end
  end
  if added[1] == 0 then return nil end
  local most = redis.call('HMGET', q.config, 'max_waiting_items', 'max_waiting_bytes',
    'max_waiting_per_client_items', 'max_waiting_per_client_bytes')
  local function refusal(client, waiting, adding, first)
    for i, unit in ipairs({'items', 'bytes'}) do
      local limit = tonumber(most[first + i] or '')
      if limit and (i == 1 or q.weighs) and waiting[i] + adding[i] > limit then
        return {'FULL', place, client, unit, waiting[i], limit, adding[i]}
      end
    end
  end
  local none, delayed, bytes = {0, 0, 0, 0}, q.base .. 'delayed:clients', q.base .. 'bytes'
  local items = length_of(q, '-') + q.client_items + redis.call('ZCARD', q.delayed)
  local full = refusal('', waiting_of(q, q.weighs and weights_of(q).all or none, items), added, 0)
  for _, client in ipairs((most[3] or most[4]) and not full and clients or {}) do
    if client ~= '-' and not full then
      items = length_of(q, client) + number_in(redis.call('HGET', delayed, client), 0, LAST_NUMBER)
      local counts = q.weighs and read_weights(redis.call('HGET', bytes, client)) or none
      full = refusal(client, waiting_of(q, counts, items), added_of[client], 2)
    end
  end
  return full
end
