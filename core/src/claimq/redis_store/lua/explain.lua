#!lua flags=allow-oom
-- Purpose: adds the cause of a crash to items that a worker has just given back as crashed. The kubelet
--   reports the cause a moment after the crash.
-- KEYS: 1 cq:{NAME}:main (LIST); derived: main:CLIENT, their levels (LIST), clients, delayed, failed, leases
--   (ZSET), failed:items, failed:reasons, busy:WORKER (HASH)
-- ARGV: 1 worker, 2 cause, 3 longest time since the crash (ms), 4 limit: how many of the newest items of each
--   list and state to look at, 5 when the process of this cause ended (s; inf: unknown), 6 how many items
--   earlier calls have looked at
--   An item has a cause already if its last error begins like this one, up to the first ":". A crash from
--   after 5 gets this one instead: the call for an earlier end came late, and took the crash for its own.
-- Replies: {"OK", number of items changed, 6 of the next call, 1 if that call may find more, else 0}. Sent
--   again it changes no item twice.
-- Cost: O(limit), and O(log n) for each item changed; at most 2,000 items or 2 MiB in a call
-- include limits numbers clock queue types counts room sizes check_text walk touch close stored
-- include envelope levels shape reasons

local q = open(KEYS[1], {'HDEL', 'HINCRBY', 'HSET', 'LSET', 'ZADD', 'ZREM'})
local worker, cause, since, limit = ARGV[1], ARGV[2], q.now - tonumber(ARGV[3]), count_of(ARGV[4], 1)
check_text(cause)
local mark, kept, ended, writes = string.match(cause, '^[^:]*:?'), string.sub(cause, 1, 200),
  tonumber(ARGV[5]), {}

-- The item with the cause, or nil unless this worker has just given the item back as crashed.
local function with_cause(envelope)
  local header = envelope and string.match(envelope, '^cq1![^\n]*')
  if not header or not string.find(header, worker, 1, true) then return nil end
  local item = parse(q, envelope, '0')
  local last = item.meta.history and item.meta.history[#item.meta.history]
  if type(last) ~= 'table' or last.kind ~= 'crash' or last.worker ~= worker then return nil end
  local at, error = tonumber(last.at) or 0, tostring(last.error)
  if at < since or error == kept or (string.sub(error, 1, #mark) == mark and at < ended * 1000) then
    return nil
  end
  last.error, item.meta.error = kept, cause
  return item
end

local function try_item(envelope, ...)
  local changed = with_cause(envelope)
  if changed then
    writes[#writes + 1] = {changed, ...}
    if #writes >= CALL_MOVES then q.bytes = CALL_BYTES end
  end
  return #(envelope or '')
end

local walk, look_at = walk_from(q, tonumber(ARGV[6]))
local lists = lists_of(q, '-')
for _, clients in ipairs({
  redis.call('ZRANGE', q.clients, '(' .. whole(PARKED), '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, 100),
  redis.call('ZRANGE', q.clients, '+inf', whole(PARKED), 'BYSCORE', 'REV', 'LIMIT', 0, 100),
}) do
  for _, client in ipairs(clients) do
    for _, list in ipairs(client ~= '-' and lists_of(q, client) or {}) do lists[#lists + 1] = list end
  end
end
for _, list in ipairs(lists) do
  look_at(math.min(limit, redis.call('LLEN', list)), function(i)
    local envelope = redis.call('LINDEX', list, whole(i))
    return try_item(envelope, 'LSET', list, whole(i), envelope)
  end)
end
local failed, stored = redis.call('ZRANGE', q.base .. 'failed', 0, whole(limit - 1), 'REV'),
  q.base .. 'failed:items'
expect_hash(stored)
expect_hash(q.base .. 'failed:reasons')
look_at(#failed, function(i)
  return try_item(redis.call('HGET', stored, failed[i + 1]), 'HSET', stored, failed[i + 1])
end)
local tokens = redis.call('ZRANGE', q.leases, '(inf', '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, whole(limit))
look_at(#tokens, function(i)
  local token = tokens[i + 1]
  local busy = q.base .. 'busy:' .. (string.match(token, '^(.*)/') or '')
  return try_item(redis.call('HGET', busy, token), 'HSET', busy, token)
end)
look_at(math.min(limit, redis.call('ZCARD', q.delayed)), function(i)
  local row = redis.call('ZRANGE', q.delayed, whole(i), whole(i), 'WITHSCORES')
  return try_item(row[1], 'DELAYED', row[1], row[2])
end)

for _, write in ipairs(writes) do
  local item = write[1]
  if item.meta.reason then
    count_reason(q, item.meta.reason, -1)
    enter_reason(q, item, shape_of(q, cause, worker))
  end
end

-- All is read; now write. What was due stays due at the same instant.
for _, write in ipairs(writes) do
  local changed, verb, key, at, before = format(write[1]), unpack(write, 2)
  local place = verb == 'DELAYED' and DELAYED or verb == 'LSET' and MAIN
  if q.weighs and place then
    weigh(q, place, {before or key}, -1)
    weigh(q, place, {changed}, 1)
  end
  if verb == 'DELAYED' then
    redis.call('ZREM', q.delayed, key)
    redis.call('ZADD', q.delayed, at, changed)
  elseif verb == 'LSET' then redis.call('LSET', key, at, changed)
  else redis.call('HSET', key, at, changed) end
end
write_reasons(q)
if q.weights then redis.call('HSET', q.stats, 'bound', write_weights(q)) end
touch(q)
return {'OK', #writes, walk.at, walk.more}
