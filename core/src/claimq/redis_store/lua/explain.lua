#!lua flags=allow-oom
-- Purpose: writes onto items that a worker gave back as crashed why they were: who can tell (the kubelet) does so a moment later.
-- use: queue envelope
-- KEYS: 1 cq:{NAME}:main (LIST); derived: main:CLIENT, clients (LIST), delayed, failed, leases (ZSET), failed:items, busy:WORKER (HASH)
-- ARGV: 1 worker, 2 cause, 3 how long ago the crash may be (ms), 4 limit; the beginning of a cause up to its first ":" marks one as told
-- Replies: {"OK", items that were told}. Only the newest `limit` of each list and state are looked at; sent again it tells nobody twice.
-- Cost: O(limit), and O(log n) for each item that is told
local q = open(KEYS[1])
local worker, cause, since, limit = ARGV[1], ARGV[2], q.now - tonumber(ARGV[3]), tonumber(ARGV[4])
local mark, writes = string.match(cause, '^[^:]*:?'), {}

-- The envelope with the cause, or nil if it is not an item that this worker gave back as crashed just now.
local function told(envelope)
  local header = envelope and string.match(envelope, '^cq1![^\n]*')
  if not header or not string.find(header, worker, 1, true) then return nil end
  local item = parse(envelope, q.now, '0')
  local last = item.meta.history and item.meta.history[#item.meta.history]
  if type(last) ~= 'table' or last.kind ~= 'crash' or last.worker ~= worker then return nil end
  if (tonumber(last.at) or 0) < since or string.sub(tostring(last.error), 1, #mark) == mark then return nil end
  last.error, item.meta.error = string.sub(cause, 1, 200), cause
  return format(item)
end

local function note(changed, ...) if changed then writes[#writes + 1] = {changed, ...} end end

local lists = {[q.main] = true}
for _, client in ipairs(redis.call('LRANGE', q.base .. 'clients', 0, 99)) do lists[key_of(q, client)] = true end
for list in pairs(lists) do
  for i, envelope in ipairs(redis.call('LRANGE', list, 0, limit - 1)) do note(told(envelope), 'LSET', list, whole(i - 1)) end
end
local failed = redis.call('ZRANGE', q.base .. 'failed', 0, limit - 1, 'REV')
for _, name in ipairs(failed) do
  note(told(redis.call('HGET', q.base .. 'failed:items', name)), 'HSET', q.base .. 'failed:items', name)
end
for _, token in ipairs(redis.call('ZRANGE', q.base .. 'leases', '(inf', '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, limit)) do
  local busy = q.base .. 'busy:' .. (string.match(token, '^(.*)/') or '')
  note(told(redis.call('HGET', busy, token)), 'HSET', busy, token)
end
local delayed = redis.call('ZRANGE', q.base .. 'delayed', 0, limit - 1, 'WITHSCORES')
for i = 1, #delayed, 2 do note(told(delayed[i]), 'DELAYED', delayed[i], delayed[i + 1]) end

-- All is read; now write. What was due stays due at the same instant.
for _, write in ipairs(writes) do
  local changed, verb, key, at = write[1], write[2], write[3], write[4]
  if verb == 'DELAYED' then
    redis.call('ZREM', q.base .. 'delayed', key)
    redis.call('ZADD', q.base .. 'delayed', at, changed)
  elseif verb == 'LSET' then redis.call('LSET', key, at, changed)
  else redis.call('HSET', key, at, changed) end
end
touch(q)
return {'OK', #writes}
