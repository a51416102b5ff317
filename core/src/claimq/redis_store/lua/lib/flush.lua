-- Removes the items of a queue, for flush and delete. One call that removed everything would block the
-- server: each claim and each client has entries to remove, and the server frees a key of few large items
-- before it goes on. So a large queue takes several calls, each with a part of the keys, claims and clients.
-- After each of them what is left is a whole queue.
local FLUSH_CLAIMS, FLUSH_CLIENTS, FLUSH_WORKERS = 1000, 500, 1000

-- A key of another type counts as empty: it is removed with the rest.
local function size_or_0(reply) return type(reply) == 'number' and reply or 0 end

-- Adds the bytes that the server frees at once with a key of so many items; it frees those of more than 64
-- parts in the background.
local function free_key(q, plan, count) plan.freed = plan.freed + math.min(count, 64) * q.largest end

-- The clients to remove next: those whose turn is next in the ring, and after the last one of the ring those
-- that only heads names. Field `has_all`: whether no client is left after them.
local function next_clients(q, ring)
  local next_ones, known = redis.call('ZRANGE', q.clients, 0, FLUSH_CLIENTS - 1), {}
  for _, client in ipairs(next_ones) do known[client] = true end
  local is_whole = #next_ones == ring
  local heads = redis.pcall('ZRANGE', q.heads, 0, FLUSH_CLIENTS)
  next_ones.has_all = is_whole and (heads.err or #heads <= FLUSH_CLIENTS)
  for _, client in ipairs(is_whole and heads or {}) do
    if not known[client] then next_ones[#next_ones + 1] = client end
  end
  return next_ones
end

-- What this call removes: claims {busy, token}, clients, keys; the count of items in each state; whether
-- nothing is left after it. Reads only.
local function plan_flush(q)
  local plan = {claims = {}, clients = {}, keys = {}, counts = {0, 0, 0, 0}, freed = 0, is_last = true}
  local held, ring = busy_count(q), redis.call('ZCARD', q.clients)
  local in_main, delayed, failed = redis.call('LLEN', q.main), redis.call('ZCARD', q.delayed),
    redis.call('ZCARD', q.base .. 'failed')
  q.has_levels = true  -- also lists that are there although this is not known
  expect_zset(q.workers)
  check_permission(q.base, 'ZRANGE', '0', '0')
  for _, token in ipairs(held > 0 and redis.call('ZRANGE', q.leases, 0,
    whole(math.min(held, FLUSH_CLAIMS) - 1)) or {}) do
    if plan.freed >= FREED_BYTES then break end
    local busy = q.base .. 'busy:' .. (string.match(token, '^(.*)/') or '')
    plan.claims[#plan.claims + 1] = {busy = busy, token = token}
    plan.freed = plan.freed + size_or_0(redis.pcall('HSTRLEN', busy, token))
  end
  local turn, of_clients = next_clients(q, ring), 0
  for i, client in ipairs(turn) do
    if plan.freed >= FREED_BYTES then break end
    plan.clients[i] = client
    for _, list in ipairs(client ~= '-' and lists_of(q, client) or {}) do
      local length = size_or_0(redis.pcall('LLEN', list))
      of_clients = of_clients + length
      free_key(q, plan, length)
    end
  end
  local has_all_clients = turn.has_all and #plan.clients == #turn
  plan.is_last = #plan.claims == held and has_all_clients
  plan.of_clients = has_all_clients and q.client_items or of_clients
  plan.counts[1], plan.counts[2] = plan.of_clients, #plan.claims
  local high, low = list_of(q, '-', 'high'), list_of(q, '-', 'low')
  local in_high, in_low = size_or_0(redis.pcall('LLEN', high)), size_or_0(redis.pcall('LLEN', low))
  for _, part in ipairs({{1, in_high, high}, {1, in_main, q.main}, {1, in_low, low},
    {3, delayed, q.delayed, q.base .. 'delayed:clients', q.base .. 'held'},
    {4, failed, q.base .. 'failed:items', q.base .. 'failed',
    q.base .. 'failed:reasons'}}) do
    local state, count, key, index, reasons = unpack(part)
    if plan.freed >= FREED_BYTES and count > 0 then plan.is_last = false
    else
      plan.counts[state] = plan.counts[state] + count
      for _, name in ipairs({key, index, reasons}) do plan.keys[#plan.keys + 1] = name end
      free_key(q, plan, count)
    end
  end
  if not plan.is_last then expect_zset(q.heads) end
  return plan
end

-- Removes what was planned; returns how many items that were.
local function flush(q, plan)
  -- include weights slices count_ends
  if q.limits and string.find(q.limits, ' busy ', 1, true) and not plan.is_last then
    for _, claim in ipairs(plan.claims) do pcall(count_ends, q, claim.busy, {claim.token}) end
  end
  for _, claim in ipairs(plan.claims) do
    redis.pcall('HDEL', claim.busy, claim.token)
    redis.call('ZREM', q.leases, claim.token)
  end
  for _, client in ipairs(plan.clients) do
    if client ~= '-' then
      redis.call('UNLINK', unpack(lists_of(q, client)))
    end
  end
  if not plan.is_last and #plan.clients > 0 then
    redis.call('ZREM', q.clients, unpack(plan.clients))
    redis.call('ZREM', q.heads, unpack(plan.clients))
  end
  for _, key in ipairs(plan.keys) do redis.call('UNLINK', key) end
  if plan.is_last then  -- also what no lease and no ring leads to
    for _, worker in ipairs(redis.call('ZRANGE', q.workers, 0, FLUSH_WORKERS - 1)) do
      redis.call('UNLINK', q.base .. 'busy:' .. worker)
    end
    for _, key in ipairs({q.clients, q.heads, q.leases, q.base .. 'claims', q.base .. 'removed',
      q.base .. 'wake', q.base .. 'ids', q.base .. 'levels', q.base .. 'keys', q.base .. 'bytes',
      q.base .. 'in_progress', q.base .. 'limited', q.base .. 'shares', q.base .. 'turns',
      q.base .. 'slots'}) do
      redis.call('UNLINK', key)
    end
  end
  if q.weighs then
    local weights = weights_of(q)
    local all = weights.all
    local items = all[1] + all[3]
    if items > 0 then weights.mean = math.ceil((all[2] + all[4]) / items) end
    weights.all, weights.from = {0, 0, 0, 0}, plan.is_last and 0 or q.now + 1
    redis.call('UNLINK', q.base .. 'bytes')
  end
  local counts = plan.counts
  return counts[1] + counts[2] + counts[3] + counts[4]
end
