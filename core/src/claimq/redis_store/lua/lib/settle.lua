-- What becomes of a claimed item that is not done. settle() decides and changes only the parsed item; place()
-- writes. kinds: fail, permanent, drop, requeue, crash, expired (counted); postpone (for a delay; uncounted);
-- interrupt (uncounted, to the head; with words, it is remembered). meta.spent: recount.lua counted a crash
-- for an item that another worker held, and that reached the limit. Its next give-back is to failed.
local function policy_of(q)
  local c = redis.call('HMGET', q.config, 'requeue_limit', 'on_expiry', 'retry_delay_initial_ms',
    'retry_delay_factor', 'retry_delay_max_ms', 'retry_delay_jitter', 'failed_max_items', 'busy_expiry_ms',
    'limits', 'max_postponed', 'key_order')
  expect_list(q.base .. 'wake'); expect_zset(q.delayed); expect_zset(q.base .. 'failed'); expect_hash(q.base
    .. 'failed:items'); expect_hash(q.base .. 'failed:reasons'); expect_list(q.base .. 'removed')
  if q.limits then expect_hash(q.base .. 'in_progress') end
  if q.has_keys then expect_hash(q.base .. 'keys'); expect_zset(q.base .. 'held') end
  expect_key_limits(q)
  local refused = refused_read(q.base)
  if refused then refuse(q.base, refused) end
  math.randomseed(q.now % 2147483647 + q.seq)
  return {limit = setting(c[1], 5, 0, 1000000), on_expiry = c[2] or 'requeue',
    initial = setting(c[3], 1000, 0, 31622400000),
          factor = setting(c[4], 2, 1, 1000), max = setting(c[5], 300000, 0, 31622400000),
            jitter = setting(c[6], 0.2, 0, 1),
          max_failed = setting(c[7], nil, 1, 1000000000), expiry = lease_ms(c[8]),
          limits = c[9] ~= '' and c[9], max_postponed = setting(c[10], 1000, 0, 1000000),
          is_strict = q.has_keys and c[11] == 'strict'}
end

local COUNTER = {fail = 'fails', permanent = 'fails', drop = 'fails', crash = 'crashes', expired = 'crashes'}

-- An item's first crash waits for nothing: its worker is the likelier cause, and the next one is alive.
local function retry_delay(policy, kind, meta)
  if policy.initial == 0 or (COUNTER[kind] == 'crashes' and meta.crashes == 1) then return 0 end
  local longest = math.min(policy.max, policy.initial * policy.factor ^ (meta.requeues - 1))
  return math.floor(longest * (1 - policy.jitter * math.random()))
end

-- An item that goes to delayed or comes from there counts twice as bytes of a call: the server hashes all of
-- it.
local function weight_of(verdict) return verdict == 'delayed' and 2 or 1 end

-- "Not now": counted in postponed_count alone, and at most until the item is late, when it fails.
-- What is postponed again and again has one line in its history.
local function postpone(q, policy, item, error, worker, delay, detail)
  local meta = item.meta
  local times, history, left = meta.postponed or 0, meta.history, time_left(meta, q.now)
  item.is_past = left <= 0
  local is_over = times >= policy.max_postponed
  if is_over then
    local words = format_text('postponed %d times, as often as max_postponed allows', times)
    error = error == '' and words or words .. ': ' .. error
  end
  if history and #history > 0 and history[#history].kind == 'postpone' then table.remove(history) end
  if error ~= '' then meta.error, meta.detail = error, detail ~= '' and detail or nil end
  remember(item, q.now, 'postpone', error, worker)
  if is_over or item.is_past or meta.spent then
    meta.given_up = (meta.given_up or 0) + 1
    return 'failed'
  end
  meta.postponed, q.counts.postponed = times + 1, (q.counts.postponed or 0) + 1
  item.delay = math.min(delay, left)
  return item.delay > 0 and 'delayed' or 'requeued'
end

-- In strict order an item with a key keeps its place, before the others of the key (item.keeps_place).
local function keep_place(policy, item)
  local meta = item.meta
  if not (policy.is_strict and meta.options and meta.options.key) then return end
  meta.place = meta.place or item.number and math.min(item.number, LAST_NUMBER)
  item.keeps_place = meta.place ~= nil
end

-- Returns the verdict: unclaimed, dropped, failed, delayed or requeued. delay: ms asked for by the caller, or
-- nil for the policy's. detail: where the error was raised, or nil; kept until the next error.
local function settle(q, policy, item, kind, error, worker, delay, detail)
  local meta = item.meta
  keep_place(policy, item)
  if kind == 'interrupt' then
    meta.interrupts, meta.place = (meta.interrupts or 0) + 1, meta.place or math.min(item.number, LAST_NUMBER)
    if error ~= '' then remember(item, q.now, kind, error, worker) end
    if not meta.spent then return 'unclaimed' end
    meta.given_up = (meta.given_up or 0) + 1
    return 'failed'
  end
  if kind == 'postpone' then return postpone(q, policy, item, error, worker, delay, detail) end
  local counter = COUNTER[kind]
  if counter then meta[counter] = (meta[counter] or 0) + 1 end
  if error ~= '' then meta.error, meta.detail = error, detail ~= '' and detail or nil end
  remember(item, q.now, kind, error, worker)
  if kind == 'drop' or (kind == 'expired' and policy.on_expiry == 'drop') then
    item.reason = kind == 'drop' and 'on_failure' or 'on_expiry'
    return 'dropped'
  end
  item.is_past = time_left(meta, q.now) <= 0
  local limit = meta.options and meta.options.max_requeues or policy.limit
  if kind == 'permanent' or (kind == 'expired' and policy.on_expiry == 'fail')
    or (meta.requeues or 0) + 1 > limit or item.is_past then
    meta.given_up = (meta.given_up or 0) + 1
    return 'failed'
  end
  meta.requeues, meta.spent = (meta.requeues or 0) + 1, nil
  item.delay = delay or (kind ~= 'requeue' and retry_delay(policy, kind, meta)) or 0
  if item.delay > 0 then return 'delayed' end
  return 'requeued'
end

-- The lines of items that go to main: those of one client and level, which go to one list.
local function lines_of(q, items)
  local lines, of_list, known = {}, {}, {}
  for _, item in ipairs(items) do
    local client, level = item.client, level_of(item.meta)
    local list = list_of(q, client, level)
    if not of_list[list] then
      of_list[list] = {list = list, client = client, level = level, items = {},
        is_new = not known[client] and q.lengths[client] == 0}
      lines[#lines + 1], known[client] = of_list[list], true
    end
    table.insert(of_list[list].items, item)
  end
  return lines
end

-- Puts items at the heads of their lists.
local function to_heads(q, items)
  local lines = lines_of(q, items)
  for _, line in ipairs(lines) do line.before = given_back_before(q, line) end
  for i = #lines, 1, -1 do head(q, lines[i]) end
end

-- Keeps the others of the item's key behind it until it is due.
local function put_gate(q, item, due)
  -- include keys
  local entry = held_entry(item.meta.options.key, item.meta.place)
  redis.call('ZADD', q.base .. 'held', '0', entry .. ' ' .. whole(due))
end

-- Writes what settle() decided for each of the items, in the order in which they were claimed: also clients
-- that (again) have items take their turns in that order. Reads before it writes.
local function place(q, policy, items, verdicts)
  local heads, tails = {}, {}
  for i, item in ipairs(items) do
    local verdict = verdicts[i]
    q.counts[verdict] = (q.counts[verdict] or 0) + 1
    if item.is_past and verdict == 'failed' then
      q.counts.past_deadline = (q.counts.past_deadline or 0) + 1
    end
    if verdict == 'requeued' or verdict == 'unclaimed' then
      local ends = (verdict == 'unclaimed' or item.keeps_place) and heads or tails
      ends[#ends + 1] = item
    end
  end
  for i, item in ipairs(items) do
    if verdicts[i] == 'dropped' then note_removed(q, item, item.reason)
    elseif verdicts[i] == 'failed' then put_failed(q, policy, item)
    elseif verdicts[i] == 'delayed' then
      put_delayed(q, q.now + item.delay, format(item), item.client)
      if item.keeps_place then put_gate(q, item, q.now + item.delay) end
    end
  end
  to_heads(q, heads)
  for _, line in ipairs(lines_of(q, tails)) do
    local envelopes = {}
    for i, item in ipairs(line.items) do restart_wait(item, q.now); envelopes[i] = format(item) end
    tail(q, line.client, envelopes, enter_level(q, line.client, line.level))
  end
  if q.entering then enter_ring(q) end
  local keys, tokens, stays = {}, {}, {}
  for i, item in ipairs(q.has_keys and items or {}) do
    local key = item.meta.options and item.meta.options.key
    if key then
      keys[#keys + 1], tokens[#keys + 1] = key, item.token
      stays[#keys] = verdicts[i] == 'unclaimed' or verdicts[i] == 'requeued' and item.keeps_place
    end
  end
  if free_keys(q, keys, tokens, stays) > 0 then leave_wake_token(q) end
  if q.removals then write_removed(q) end
  if q.reasons then write_reasons(q) end
  if #heads + #tails > 0 or (q.counts.delayed or 0) > 0 then leave_wake_token(q) end
end
