#!lua flags=no-writes
-- Purpose: who has claimed or renewed within the last hour, or holds claims.
-- use: queue
-- KEYS: 1 cq:{NAME}:main; derived: workers (ZSET), busy:WORKER (HASH)
-- ARGV: none
-- Replies: {worker, last seen in ms, claims held, ...}
-- Cost: O(workers)
local q = open(KEYS[1])
local seen, reply = redis.call('ZRANGE', q.base .. 'workers', 0, -1, 'WITHSCORES'), {}
for i = 1, #seen, 2 do
  reply[#reply + 1] = seen[i]
  reply[#reply + 1] = seen[i + 1]
  reply[#reply + 1] = redis.call('HLEN', q.base .. 'busy:' .. seen[i])
end
return reply
