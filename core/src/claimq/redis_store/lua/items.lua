#!lua flags=no-writes
-- Purpose: a page of the items of busy, delayed or failed, oldest first (busy by lease end, delayed by due time, failed by failing).
-- use: queue
-- KEYS: 1 cq:{NAME}:main; derived: leases, delayed, failed (ZSET), busy:WORKER, failed:items (HASH), claims (ZSET)
-- ARGV: 1 state, 2 skip, 3 count
-- Replies: {calls, then for each: NAME (token, or field in failed, or ""), score in ms, envelope or false}; calls: the live part of the
--   log of claim calls, as lines that are in turn "FIRST COUNT NONCE WORKER" and the instant in ms (busy only)
-- Cost: O(skip + count), and O(claim calls that are live) for busy
local q = open(KEYS[1])
local state, skip, count = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local keys = {busy = 'leases', delayed = 'delayed', failed = 'failed'}
local page = redis.call('ZRANGEBYSCORE', q.base .. keys[state], '-inf', '(inf', 'WITHSCORES', 'LIMIT', skip, count)
local reply = {state == 'busy' and table.concat(redis.call('ZRANGE', q.base .. 'claims', 0, -1, 'WITHSCORES'), '\n') or ''}
for i = 1, #page, 2 do
  local name, envelope = page[i], page[i]
  if state == 'busy' then envelope = redis.call('HGET', q.base .. 'busy:' .. string.match(name, '^(.*)/'), name)
  elseif state == 'failed' then envelope = redis.call('HGET', q.base .. 'failed:items', name)
  else name = '' end
  reply[#reply + 1] = name; reply[#reply + 1] = page[i + 1]; reply[#reply + 1] = envelope
end
return reply
