#!lua flags=allow-oom
-- Purpose: sets fields of the queue's policy. A handful of short words, and what gets a full server out of its trouble: so it may go
--   over the server's memory.
-- use: queue
-- KEYS: 1 cq:{NAME}:main; derived: stats, config (HASH)
-- ARGV: 1 field, 2 its value, and so on
-- Replies: {"OK"}
-- Cost: O(fields)
local q = open(KEYS[1])
redis.call('HSET', q.base .. 'config', unpack(ARGV))
return {'OK'}
