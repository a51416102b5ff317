#!lua flags=no-writes
-- Purpose: damage to a queue's keys that no call of these scripts leaves: keys that another client has
--   changed, that the server has evicted, or that were restored in part. It reports each with the Redis
--   command that corrects it.
-- KEYS: 1 cq:{NAME}:main (LIST); derived: main:CLIENT, their levels (LIST), clients, heads, leases,
--   claims, workers, delayed, failed (ZSET), busy:WORKER, delayed:clients, failed:items, config, stats (HASH)
-- ARGV: none
-- Replies: {key, what is wrong, word of the command..., false, ...}; at most 10 of a kind
-- Cost: O(workers + clients + items in busy and failed). It leaves out more than 10,000 clients, and a
--   worker's or all failed items beyond 5,000, and looks at the first 1,000 workers and places of failed
--   items.
-- include limits numbers clock queue keeper levels tags claim_calls client_of

local MOST, MOST_ITEMS, MOST_CLIENTS, SHOWN = 1000, 5000, 10000, 10
local q, reply, shown, looked = open(KEYS[1], {}), {}, {}, 0
local failed, stored = q.base .. 'failed', q.base .. 'failed:items'
local function add(key, kind, what, ...)
  shown[kind] = (shown[kind] or 0) + 1
  if shown[kind] > SHOWN then return end
  for _, word in ipairs({key, what, ...}) do reply[#reply + 1] = word end
  reply[#reply + 1] = false
end
local function page(key) return redis.call('ZRANGE', key, 0, MOST - 1) end
local function fields(key)
  local count = redis.call('HLEN', key)
  if count == 0 or looked + count > MOST_ITEMS then return {} end
  looked = looked + count
  return redis.call('HKEYS', key)
end

-- Items in busy. The log of claim calls names workers that are missing in workers.
local expiry, names = lease_ms(redis.call('HGET', q.config, 'busy_expiry_ms')), page(q.workers)
local calls = redis.call('ZRANGE', q.base .. 'claims', 0, MOST - 1, 'WITHSCORES')
local held = select(4, look_through(q, calls, false))
for name, count in pairs(held) do
  if count > 0 and not redis.call('ZSCORE', q.workers, name) then
    names[#names + 1] = name
    local what = 'lacks the worker ' .. name .. ', which has claims'
    add(q.workers, 'worker', what, 'ZADD', q.workers, whole(q.now), name)
  end
end
for _, name in ipairs(names) do
  for _, token in ipairs(fields(q.base .. 'busy:' .. name)) do
    if not redis.call('ZSCORE', q.leases, token) then
      local what = 'lacks the claim ' .. token .. ', which never expires'
      add(q.leases, 'lease', what, 'ZADD', q.leases, whole(q.now + expiry), token)
    end
  end
end
if redis.call('ZCARD', q.leases) > 0 and not redis.call('ZSCORE', q.leases, KEEPER) then
  local what = 'lacks its last entry, so one claim is not counted'
  add(q.leases, 'keeper', what, 'ZADD', q.leases, '+inf', KEEPER)
end

-- Failed items.
for _, id in ipairs(page(failed)) do
  if redis.call('HEXISTS', stored, id) == 0 then
    add(failed, 'place', 'lists ' .. id .. ', which is gone', 'ZREM', failed, id)
  end
end
for _, id in ipairs(fields(stored)) do
  if not redis.call('ZSCORE', failed, id) then
    add(failed, 'failed', 'lacks the failed item ' .. id, 'ZADD', failed, whole(q.now), id)
  end
end

-- The counts of delayed items by client, unless the items are many or large.
local function check_delayed()
  local key, items = q.base .. 'delayed:clients', redis.call('ZCARD', q.delayed)
  if items > MOST or items * q.largest > CALL_BYTES or redis.call('HLEN', key) > MOST then return end
  local counted, clients = redis.call('HGETALL', key), {}
  for i = 1, #counted, 2 do clients[counted[i]] = -(tonumber(counted[i + 1]) or 0.5) end
  for _, envelope in ipairs(page(q.delayed)) do
    local client = client_of(envelope)
    if client ~= '-' then clients[client] = (clients[client] or 0) + 1 end
  end
  for client, missing in pairs(clients) do
    if missing ~= 0 then
      local text = redis.call('HGET', key, client) or '0'
      local right = missing + (tonumber(text) or 0.5)
      local what = 'counts ' .. text .. ' delayed items of ' .. client .. ', and there are ' .. whole(right)
      if right == 0 then add(key, 'delayed', what, 'HDEL', key, client)
      else add(key, 'delayed', what, 'HSET', key, client, whole(right)) end
    end
  end
end
check_delayed()

-- The lists of main.
local size, in_ring, items = redis.call('ZCARD', q.clients), {}, 0
if size > MOST_CLIENTS or redis.call('ZCARD', q.heads) > MOST_CLIENTS then return reply end
for _, client in ipairs(redis.call('ZRANGE', q.clients, 0, -1)) do
  if client ~= '-' then items = items + count_in(q, client) end
  in_ring[client] = true
end
for _, client in ipairs(redis.call('ZRANGE', q.heads, 0, -1)) do
  local count = not in_ring[client] and count_in(q, client) or 0
  items = items + count
  if count > 0 then
    local what = 'lacks the client ' .. client .. ', whose items wait'
    add(q.clients, 'client', what, 'ZADD', q.clients, whole(next_tag(q)), client)
  end
end
if items ~= q.client_items then
  local what = 'counts ' .. q.client_items .. ' items of clients, and ' .. items .. ' wait'
  add(q.stats, 'items', what, 'HSET', q.stats, 'client_items', whole(items))
end
return reply
