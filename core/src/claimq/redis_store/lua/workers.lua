#!lua flags=no-writes
-- Purpose: a page of the workers that claimed or renewed within the last hour, or hold claims, the one seen
--   longest ago first.
-- KEYS: 1 cq:{NAME}:main; derived: workers (ZSET), busy:WORKER (HASH)
-- ARGV: 1 how many to skip, 2 how many to return (at most 1,000)
-- Replies: {worker, last seen in ms, number of claims held, ...}
-- Cost: O(log workers + workers returned)
-- include limits counts workers

local skip, count = tonumber(ARGV[1]), count_of(ARGV[2], 1)
return workers_from(string.sub(KEYS[1], 1, -5), ARGV[1], string.format('%d', skip + count - 1))
