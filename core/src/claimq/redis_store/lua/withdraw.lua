#!lua flags=allow-oom
-- Purpose: withdraws an earlier claim call of the lane: if that call has not run, it never will; if it has,
--   the reply says what it claimed.
-- KEYS: 1 cq:{NAME}:main; derived: stats, calls:INSTANCE (HASH)
-- ARGV: 1 instance, 2 lane, 3 call number, 4 number of the call to withdraw
-- Replies: {"OK", the reply of that call, or "" if it has not run}, {"STALE"}
-- Cost: O(1)
-- include limits numbers clock queue call

local q = open(KEYS[1], {'HSET', 'PEXPIRE'})
local again = kept_reply(q)
if again then return again end
local number, reply = string.match(redis.call('HGET', q.calls, ARGV[2]) or '', '^(%d+) %d+ (.*)$')
local text = number == ARGV[4] and reply or ''
keep_reply(q, text)
return {'OK', text}
