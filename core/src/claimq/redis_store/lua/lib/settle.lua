-- What becomes of a claimed item that is not done. settle() decides and changes only the parsed item; place()
-- writes. kinds: fail, permanent, drop, requeue, crash, expired (counted); interrupt (uncounted, to the head;
-- with words, it is remembered). meta.spent: recount.lua counted a crash for an item that another worker
-- held, and that reached the limit. Its next give-back is to failed.
local function policy_of(q)
  local c = redis.call('HMGET', q.config, 'requeue_limit', 'on_expiry', 'retry_delay_initial_ms',
    'retry_delay_factor', 'retry_delay_max_ms', 'retry_delay_jitter', 'failed_max_items', 'busy_expiry_ms')
  expect_list(q.base .. 'wake'); expect_zset(q.delayed); expect_zset(q.base .. 'failed'); expect_hash(q.base
    .. 'failed:items'); expect_list(q.base .. 'removed')
  local refused = refused_read(q.base)
  if refused then refuse(q.base, refused) end
  math.randomseed(q.now % 2147483647 + q.seq)
  return {limit = setting(c[1], 5, 0, 1000000), on_expiry = c[2] or 'requeue',
    initial = setting(c[3], 0, 0, 31622400000),
          factor = setting(c[4], 2, 1, 1000), max = setting(c[5], 300000, 0, 31622400000),
            jitter = setting(c[6], 0, 0, 1),
          max_failed = setting(c[7], nil, 1, 1000000000), expiry = lease_ms(c[8])}
end

local function retry_delay(policy, requeues)
  if policy.initial == 0 then return 0 end
  local longest = math.min(policy.max, policy.initial * policy.factor ^ (requeues - 1))
  return math.floor(longest * (1 - policy.jitter * math.random()))
end

-- An item that goes to delayed or comes from there counts twice as bytes of a call: the server hashes all of
-- it.
local function weight_of(verdict) return verdict == 'delayed' and 2 or 1 end

local COUNTER = {fail = 'fails', permanent = 'fails', drop = 'fails', crash = 'crashes', expired = 'crashes'}
-- Returns the verdict: unclaimed, dropped, failed, delayed or requeued. delay: ms asked for by the caller, or
-- nil for the policy's. detail: where the error was raised, or nil; kept until the next error.
local function settle(q, policy, item, kind, error, worker, delay, detail)
  local meta = item.meta
  if kind == 'interrupt' then
    meta.interrupts, meta.place = (meta.interrupts or 0) + 1, meta.place or math.min(item.number, LAST_NUMBER)
    if error ~= '' then remember(item, q.now, kind, error, worker) end
    if not meta.spent then return 'unclaimed' end
    meta.given_up = (meta.given_up or 0) + 1
    return 'failed'
  end
  local counter = COUNTER[kind]
  if counter then meta[counter] = (meta[counter] or 0) + 1 end
  if error ~= '' then meta.error, meta.detail = error, detail ~= '' and detail or nil end
  remember(item, q.now, kind, error, worker)
  if kind == 'drop' or (kind == 'expired' and policy.on_expiry == 'drop') then
    item.reason = kind == 'drop' and 'on_failure' or 'on_expiry'
    return 'dropped'
  end
  item.is_past = is_past_deadline(meta, q.now)
  local limit = meta.options and meta.options.max_requeues or policy.limit
  if kind == 'permanent' or (kind == 'expired' and policy.on_expiry == 'fail')
    or (meta.requeues or 0) + 1 > limit or item.is_past then
    meta.given_up = (meta.given_up or 0) + 1
    return 'failed'
  end
  meta.requeues, meta.spent = (meta.requeues or 0) + 1, nil
  item.delay = delay or (kind ~= 'requeue' and retry_delay(policy, meta.requeues)) or 0
  if item.delay > 0 then return 'delayed' end
  return 'requeued'
end

-- The place of an item that was given back to the head: the number of its first claim since it entered the
-- tail. Places grow along a client's list; items behind them were not claimed since they entered it, and have
-- none (nil).
local function place_of(envelope)
  local _, meta_at = string.find(envelope, '^cq1[ !]%S+ %d+ %S+ ')
  local header = string.sub(envelope, 1, meta_at and string.find(envelope, '\n', meta_at, true) or 0)
  local _, place_at = string.find(header, '"place":"', meta_at or 1, true)
  return place_at and tonumber(string.match(header, '^(%d+)"', place_at + 1))
end

-- A call reads at most so many items that were given back before it, of all clients together.
local MERGE_ITEMS, MERGE_BYTES = 1000, CALL_BYTES

-- Reads the items at the head of a line's list that were given back before and come before one of its own.
local function given_back_before(q, line)
  local before, items = {}, line.items
  table.sort(items, function(a, b) return a.meta.place < b.meta.place end)
  q.merge_items, q.merge_bytes = q.merge_items or MERGE_ITEMS, q.merge_bytes or MERGE_BYTES
  while q.merge_items > 0 and q.merge_bytes > 0 do
    local envelope = redis.call('LINDEX', line.list, -(#before + 1))
    if not envelope then break end
    local its_place = place_of(envelope)
    q.merge_items, q.merge_bytes = q.merge_items - 1, q.merge_bytes - #envelope
    if not its_place or its_place > items[#items].meta.place then break end
    before[#before + 1] = {place = its_place, envelope = envelope}
  end
  return before
end

-- Puts a line's items back at the head, merged by their places with those that were given back before:
-- whichever call comes first, a client's items stand in the order of their first claims since they entered
-- the tail (that of arrival, but for items that claim_item took). What comes after more items than a call
-- reads stands right behind those that it read (docs/decisions/order-of-items.md).
local function head(q, line)
  local client, items, before, merged, next_one = line.client, line.items, line.before, {}, 1
  for _, item in ipairs(items) do
    while before[next_one] and before[next_one].place < item.meta.place do
      merged[#merged + 1] = before[next_one].envelope
      next_one = next_one + 1
    end
    merged[#merged + 1] = format(item)
    note_size(q, #merged[#merged])
  end
  for i = next_one, #before do merged[#merged + 1] = before[i].envelope end
  local list, newest_first = enter_level(q, client, line.priority) or line.list, {}
  if #before > 0 then redis.call('LTRIM', list, 0, -(#before + 1)) end
  for i = #merged, 1, -1 do newest_first[#newest_first + 1] = merged[i] end
  sliced(newest_first, function(...) redis.call('RPUSH', list, ...) end)
  if client ~= '-' then
    if line.is_new then redis.call('RPUSH', q.clients, client) end
    redis.call('ZADD', q.heads, enqueued_at(oldest_of(q, client)) or whole(q.now), client)
  end
  grow(q, client, #items)
end

-- Writes what settle() decided for each of the items, in the order in which they were claimed: also clients
-- that (again) have items take their turns in that order. One call has one kind, so what goes back to main
-- goes either to the head or to the tail. Reads before it writes.
local function place(q, policy, items, verdicts)
  -- a line: the items of one client and priority, which go to one list
  local lines, of_list, known, to_head = {}, {}, {}, false
  for i, item in ipairs(items) do
    local verdict, client = verdicts[i], item.client
    q.counts[verdict] = (q.counts[verdict] or 0) + 1
    if item.is_past and verdict == 'failed' then
      q.counts.past_deadline = (q.counts.past_deadline or 0) + 1
    end
    if verdict == 'requeued' or verdict == 'unclaimed' then
      local priority = priority_of(item.meta)
      local list = list_of(q, client, priority)
      if not of_list[list] then
        of_list[list] = {list = list, client = client, priority = priority, items = {},
          is_new = not known[client] and q.lengths[client] == 0}
        lines[#lines + 1], known[client] = of_list[list], true
      end
      table.insert(of_list[list].items, item)
      to_head = verdict == 'unclaimed'
    end
  end
  if to_head then
    for _, line in ipairs(lines) do line.before = given_back_before(q, line) end
  end
  for i, item in ipairs(items) do
    if verdicts[i] == 'dropped' then note_removed(q, item, item.reason)
    elseif verdicts[i] == 'failed' then put_failed(q, policy, item)
    elseif verdicts[i] == 'delayed' then put_delayed(q, q.now + item.delay, format(item)) end
  end
  if to_head then
    for i = #lines, 1, -1 do head(q, lines[i]) end
  else
    for _, line in ipairs(lines) do
      local envelopes = {}
      for i, item in ipairs(line.items) do restart_wait(item, q.now); envelopes[i] = format(item) end
      tail(q, line.client, envelopes, enter_level(q, line.client, line.priority))
    end
  end
  if q.entering then enter_ring(q) end
  if q.removals then write_removed(q) end
  if #lines > 0 or (q.counts.delayed or 0) > 0 then leave_wake_token(q) end
  q.counts.client_items = q.more_client_items
end
