#!lua flags=no-writes
-- Purpose: a page of the workers that claimed or renewed within the last hour, or hold claims, the one seen
--   longest ago first.
-- KEYS: 1 cq:{NAME}:main; derived: workers (ZSET), busy:WORKER (HASH)
-- ARGV: 1 how many to skip, 2 how many to return (at most 1,000)
-- Replies: {worker, last seen in ms, number of claims held, ...}
-- Cost: O(log workers + workers returned)
-- include limits counts

local base, format = string.sub(KEYS[1], 1, -5), string.format
local skip, count, reply = tonumber(ARGV[1]), count_of(ARGV[2], 1), {}
local seen = redis.call('ZRANGE', base .. 'workers', format('%d', skip), format('%d', skip + count - 1),
  'WITHSCORES')
for i = 1, #seen, 2 do
  reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = seen[i], seen[i + 1],
    redis.call('HLEN', base .. 'busy:' .. seen[i])
end
return reply
