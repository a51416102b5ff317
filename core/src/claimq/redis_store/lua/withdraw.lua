#!lua flags=allow-oom
-- Purpose: withdraws an earlier claim call of the lane: if that call has not run, it never will; if it has, the reply says what it claimed.
-- use: queue call
-- KEYS: 1 cq:{NAME}:main; derived: stats, calls:INSTANCE (HASH)
-- ARGV: 1 instance, 2 lane, 3 call number, 4 number of the call to withdraw
-- Replies: {"OK", the reply of that call, or "" if it has not run}, {"STALE"}
-- Cost: O(1)
local q = open(KEYS[1])
local kept = kept_reply(q)
if kept == 'STALE' then return {'STALE'} elseif kept then return {'OK', kept} end
local number, reply = string.match(redis.call('HGET', q.calls, ARGV[2]) or '', '^(%d+) %d+ (.*)$')
local text = number == ARGV[4] and reply or ''
keep_reply(q, text)
return {'OK', text}
