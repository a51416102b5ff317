#!lua flags=allow-oom
-- Purpose: notes that a process is present. Soon after the server has seen the end of its subscription, its
--   claims end; until then their leases decide.
-- KEYS: 1 cq:{NAME}:main; derived: present (ZSET), stats (HASH)
-- ARGV: 1 instance of the process, 2 worker, 3 "1": it is subscribed to cq:{NAME}:present:INSTANCE, "0": it
--   leaves, and its leases decide
-- Replies: {"OK", 1 if the server has the subscription}; without it nothing is noted. Sending it again is
--   harmless by nature.
-- Cost: O(log processes)
-- include limits numbers clock queue types touch channel

local q = open(KEYS[1], {'HSET', 'ZADD', 'ZREM'})
local instance, worker = ARGV[1], ARGV[2]
if not string.find(instance, '^[%w_-]+$') or #instance > 64 or #worker > 200 then
  error({err = 'ERR an instance has up to 64 letters, digits, - and _'})
end
expect_zset(q.base .. 'present')
local is_here = ARGV[3] == '1' and redis.call('PUBSUB', 'NUMSUB', channel_of(q, instance))[2] > 0
if is_here then redis.call('ZADD', q.base .. 'present', whole(q.now + LOOK_MS), instance .. ' ' .. worker)
elseif redis.call('ZREM', q.base .. 'present', instance .. ' ' .. worker) == 0 then
  return {'OK', 0}  -- nothing of a deleted queue comes back
end
touch(q)
return {'OK', is_here and 1 or 0}
