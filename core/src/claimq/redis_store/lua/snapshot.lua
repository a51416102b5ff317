#!lua flags=no-writes
-- Purpose: one consistent look at a queue: lengths, ages, counters.
-- KEYS: 1 cq:{NAME}:main (LIST); derived: its levels, clients (LIST), heads, leases, claims, delayed, failed
--   (ZSET), config, stats (HASH)
-- ARGV: 1 how far to look ahead for delayed items, in ms
-- Replies: {now, main, busy, delayed, failed, main since, busy since, failed since, next due (ms, or ""),
--   paused 0|1, delayed items that become due within ARGV[1] ms, stats...}
-- Cost: O(log delayed + the tokens of the oldest 256 claim calls in the log, ended or not: at most 2,000)
-- include limits queue sizes keeper stored levels oldest claim_calls

local q = open(KEYS[1], {})
local in_main, leases = count_in(q, '-'), q.leases
local since = redis.call('ZRANGE', q.heads, 0, 0, 'WITHSCORES')[2] or ''
local oldest = in_main > 0 and enqueued_at(oldest_of(q, '-') or '')
if oldest and (since == '' or tonumber(oldest) < tonumber(since)) then since = oldest end
local held, busy_since = busy_count(q), ''
if held > 0 then
  local _, at = look_through(q, redis.call('ZRANGE', q.base .. 'claims', 0, 255, 'WITHSCORES'), true)
  busy_since = at or ''
end
local config = redis.call('HMGET', q.config, 'paused', 'suspended')
local paused = config[1] == '1' or config[2] == '1'
local failed = redis.call('ZRANGE', q.base .. 'failed', 0, 0, 'WITHSCORES')[2] or ''
local due = redis.call('ZRANGE', q.delayed, 0, 0, 'WITHSCORES')[2] or ''
local soon = redis.call('ZCOUNT', q.delayed, '(' .. whole(q.now + 1), whole(q.now + tonumber(ARGV[1])))
return {whole(q.now), in_main + q.client_items, held, redis.call('ZCARD', q.delayed),
  redis.call('ZCARD', q.base .. 'failed'),
        since, busy_since, failed, due, paused and 1 or 0, soon, unpack(redis.call('HGETALL', q.stats))}
