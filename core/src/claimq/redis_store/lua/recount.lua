#!lua flags=allow-oom
-- Purpose: counts as crashes what a worker gave back as interrupted, when the kubelet reports a moment later
--   that the worker itself was the cause. An item that waits goes to the tail or to failed; one that another
--   worker holds stays there, and goes to failed at its next give-back if it is at its limit (meta.spent).
-- KEYS: 1 cq:{NAME}:main (LIST); derived: main:CLIENT, their levels, wake, removed (LIST), clients, heads,
--   leases, delayed, failed (ZSET), busy:WORKER, failed:items, failed:reasons, delayed:clients, config,
--   levels, stats (HASH)
-- ARGV: 1 worker, 2 cause, 3 longest time since the interruption (ms), 4 limit: how many of the next items of
--   each list and of the newest claims and of delayed to look at, 5 how many items earlier calls have looked
--   at
-- Replies: {"OK", number of items counted, 5 of the next call, 1 if that call may find more, else 0}. Sent
--   again it counts no item twice: the interruption is gone from the item's history.
-- Cost: O(limit log n); clients are looked for among the 100 next ones, and as many that are parked; at most
--   2,000 items or 2 MiB in a call
-- include limits numbers clock queue types counts room sizes check_text walk slices touch close wake
-- include enqueued_at stored delay weigh_out leave_delayed envelope levels oldest forget enter_level tags
-- include entry_tags lengths main expect_entry settle_client removed shape reasons put_failed place_of head
-- include keys leave_held free_keys settle

local q = open(KEYS[1], {'HDEL', 'HINCRBY', 'HSET', 'LPUSH', 'LREM', 'LTRIM', 'RPUSH', 'ZADD', 'ZREM'})
local worker, cause, since, limit = ARGV[1], ARGV[2], q.now - tonumber(ARGV[3]), count_of(ARGV[4], 1)

check_text(cause)

-- The item, without its last interruption, if that was by this worker just now.
local function interrupted(envelope)
  local header = envelope and string.match(envelope, '^cq1[^\n]*')
  if not header or not string.find(header, worker, 1, true) then return nil end
  local item = parse(q, envelope, '0')
  local history = item.meta.history
  local last = history and history[#history]
  if type(last) ~= 'table' or last.kind ~= 'interrupt' or last.worker ~= worker then return nil end
  if (tonumber(last.at) or 0) < since then return nil end
  table.remove(history)
  item.meta.interrupts = (item.meta.interrupts or 0) > 1 and item.meta.interrupts - 1 or nil
  return item
end

-- What was interrupted stands at the head, and a client that has items again has the next turn, or is parked.
local waiting_again, claims, clients = {}, {}, {'-'}
for _, page in ipairs({
  redis.call('ZRANGEBYSCORE', q.clients, '-inf', '(' .. whole(PARKED), 'LIMIT', 0, 100),
  redis.call('ZRANGEBYSCORE', q.clients, whole(PARKED), '+inf', 'LIMIT', 0, 100),
}) do
  for _, client in ipairs(page) do
    if client ~= '-' then clients[#clients + 1] = client end
  end
end
local walk, look_at = walk_from(q, tonumber(ARGV[5]))
local function found() if #waiting_again + #claims >= CALL_MOVES then q.bytes = CALL_BYTES end end
for _, client in ipairs(clients) do
  for _, list in ipairs(lists_of(q, client)) do
    look_at(math.min(limit, length_of_list(list)), function(i)
      local envelope = redis.call('LINDEX', list, whole(-(i + 1)))
      local item = interrupted(envelope)
      if item and item.client == client then
        expect_entry(q, item)
        item.list, item.envelope, waiting_again[#waiting_again + 1] = list, envelope, item
        found()
      end
      return #(envelope or '')
    end)
  end
end
local tokens = redis.call('ZRANGE', q.leases, '(inf', '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, whole(limit))
look_at(#tokens, function(i)
  local token = tokens[i + 1]
  local busy = q.base .. 'busy:' .. (string.match(token, '^(.*)/') or '')
  local envelope = redis.call('HGET', busy, token)
  local item = interrupted(envelope)
  if item then claims[#claims + 1] = {busy, token, item}; found() end
  return #(envelope or '')
end)
-- One that stood at the head may be held for its key now.
look_at(q.has_keys and math.min(limit, redis.call('ZCARD', q.base .. 'held')) or 0, function(i)
  local envelope = redis.call('ZRANGE', q.delayed, '(' .. whole(LAST_MS), whole(LAST_NUMBER), 'BYSCORE',
    'LIMIT', whole(i), 1)[1]
  local item = interrupted(envelope)
  if item then
    expect_entry(q, item)
    item.envelope, waiting_again[#waiting_again + 1] = envelope, item
    found()
  end
  return #(envelope or '')
end)
local policy, verdicts = policy_of(q), {}
expect_hash(q.base .. 'levels')
local count = #waiting_again + #claims
if count == 0 then return {'OK', 0, walk.at, walk.more} end

-- All is read; now write.
q.counts = {crashes = count}
for i, item in ipairs(waiting_again) do
  if item.list then
    redis.call('LREM', item.list, -1, item.envelope)
    if q.weighs then weigh_out(q, MAIN, {item.envelope}) end
    q.lengths[item.client] = q.lengths[item.client] - 1
    if item.client ~= '-' then settle_client(q, item.client, 1) end
  else
    redis.call('ZREM', q.delayed, item.envelope)
    local key = item.meta.options and item.meta.options.key
    if key and item.meta.place then leave_held(q, key, item.meta.place) end
    leave_delayed(q, item.client, item.envelope)
  end
  verdicts[i] = settle(q, policy, item, 'crash', cause, worker)
end
place(q, policy, waiting_again, verdicts)
for _, claim in ipairs(claims) do
  local meta = claim[3].meta
  local is_last = settle(q, policy, claim[3], 'crash', cause, worker) == 'failed'
  if is_last then meta.given_up, meta.spent = meta.given_up > 1 and meta.given_up - 1 or nil, true end
  redis.call('HSET', claim[1], claim[2], format(claim[3]))
end
close(q, q.counts)
return {'OK', count, walk.at - #waiting_again, walk.more}
