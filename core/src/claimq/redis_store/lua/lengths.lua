#!lua flags=no-writes
-- Purpose: how many items a queue has in each state, for lists of queues: a fifth of the cost of a snapshot.
-- KEYS: 1 cq:{NAME}:main (LIST); derived: high, low (LIST), leases, delayed, failed (ZSET), stats (HASH)
-- ARGV: none
-- Replies: {main, busy, delayed, failed}
-- Cost: O(1)
-- include keeper levels

local base = string.sub(KEYS[1], 1, -5)
local of_clients, levels = unpack(redis.call('HMGET', base .. 'stats', 'client_items', 'levels'))
local q = {main = KEYS[1], base = base, leases = base .. 'leases', has_levels = levels}
return {count_in(q, '-') + (tonumber(of_clients) or 0), busy_count(q),
  redis.call('ZCARD', base .. 'delayed'), redis.call('ZCARD', base .. 'failed')}
