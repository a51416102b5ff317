-- What becomes of a claimed item that is not done. settle() decides and changes only the parsed item; place() writes.
-- kinds: fail, permanent, requeue, crash, expired (counted); interrupt (uncounted, to the head; with words, it is remembered).
-- An item with meta.spent has had all its requeues while it was in somebody's hands (recount.lua): no interruption saves it.
local function policy_of(q)
  local c = redis.call('HMGET', q.base .. 'config', 'requeue_limit', 'on_expiry', 'retry_initial_ms', 'retry_factor', 'retry_max_ms', 'retry_jitter', 'failed_max_items')
  redis.call('LLEN', q.base .. 'wake'); redis.call('ZCARD', q.base .. 'delayed')
  redis.call('ZCARD', q.base .. 'failed'); redis.call('HEXISTS', q.base .. 'failed:items', '')
  if c[7] then redis.call('ZRANGE', q.base .. 'failed', 0, 0) end
  math.randomseed(q.now % 2147483647 + q.seq)
  return {limit = tonumber(c[1]) or 5, on_expiry = c[2] or 'requeue', initial = tonumber(c[3]) or 0, factor = tonumber(c[4]) or 2,
          max = tonumber(c[5]) or 300000, jitter = tonumber(c[6]) or 0, max_failed = tonumber(c[7])}
end

local function retry_delay(policy, requeues)
  if policy.initial == 0 then return 0 end
  local longest = math.min(policy.max, policy.initial * policy.factor ^ (requeues - 1))
  return math.floor(longest * (1 - policy.jitter * math.random()))
end

local COUNTER = {fail = 'fails', permanent = 'fails', crash = 'crashes', expired = 'crashes'}
-- Returns the verdict: unclaimed, dropped, failed, delayed or requeued. delay: ms asked for by the caller, or nil for the policy's.
local function settle(q, policy, item, kind, error, worker, delay)
  local meta = item.meta
  if kind == 'interrupt' then
    meta.interrupts = (meta.interrupts or 0) + 1
    if error ~= '' then remember(item, q.now, kind, error, worker) end
    if not meta.spent then return 'unclaimed' end
    meta.given_up = (meta.given_up or 0) + 1
    return 'failed'
  end
  local counter = COUNTER[kind]
  if counter then meta[counter] = (meta[counter] or 0) + 1 end
  if error ~= '' then meta.error = error end
  remember(item, q.now, kind, error, worker)
  if kind == 'expired' and policy.on_expiry == 'drop' then return 'dropped' end
  if kind == 'permanent' or (kind == 'expired' and policy.on_expiry == 'fail') or (meta.requeues or 0) + 1 > policy.limit then
    meta.given_up = (meta.given_up or 0) + 1
    return 'failed'
  end
  meta.requeues, meta.spent = (meta.requeues or 0) + 1, nil
  item.delay = delay or (kind ~= 'requeue' and retry_delay(policy, meta.requeues)) or 0
  if item.delay > 0 then return 'delayed' end
  return 'requeued'
end

-- Where in failed the item goes: under its id, or beside other failed items that have the same id of a producer's own. Past ten of them the
-- name is made of this call's number, so that it is found at once.
local function failed_field(q, item)
  local field, again = item.id, 1
  while redis.call('HEXISTS', q.base .. 'failed:items', field) == 1 do
    again = again + 1
    if again > 10 then
      q.same = (q.same or 0) + 1
      return item.id .. '#' .. whole(q.seq) .. '.' .. q.same
    end
    field = item.id .. '#' .. again
  end
  return field
end

local function put_failed(q, policy, item)
  local field = failed_field(q, item)
  redis.call('HSET', q.base .. 'failed:items', field, format(item))
  redis.call('ZADD', q.base .. 'failed', q.now, field)
  local over = policy.max_failed and redis.call('ZCARD', q.base .. 'failed') - policy.max_failed or 0
  if over > 0 then
    for _, oldest in ipairs(redis.call('ZRANGE', q.base .. 'failed', 0, math.min(over, 10) - 1)) do
      redis.call('ZREM', q.base .. 'failed', oldest)
      redis.call('HDEL', q.base .. 'failed:items', oldest)
      q.counts.failed_removed = (q.counts.failed_removed or 0) + 1
    end
  end
end

-- Writes what settle() decided for each of the items, in the order in which they were claimed: also clients that (again) have items take their
-- turns in that order.
local function place(q, policy, items, verdicts)
  local tails, heads, clients = {}, {}, {}
  for i, item in ipairs(items) do
    local verdict, client = verdicts[i], item.client
    q.counts[verdict] = (q.counts[verdict] or 0) + 1
    if verdict == 'failed' then put_failed(q, policy, item)
    elseif verdict == 'delayed' then put_delayed(q, q.now + item.delay, format(item))
    elseif verdict ~= 'dropped' then
      if verdict == 'requeued' then restart_wait(item, q.now) end
      local lists = verdict == 'requeued' and tails or heads
      if not lists[client] then lists[client] = {}; clients[#clients + 1] = client end
      table.insert(lists[client], format(item))
    end
  end
  for i = #clients, 1, -1 do if heads[clients[i]] then head(q, clients[i], heads[clients[i]]) end end
  for _, client in ipairs(clients) do if tails[client] then tail(q, client, tails[client]) end end
  if next(heads) or next(tails) or (q.counts.delayed or 0) > 0 then wake(q) end
  q.counts.client_items = q.more_client_items
end
