#!lua flags=no-writes
-- Purpose: how many failed items there are, in all and by their reasons.
-- KEYS: 1 cq:{NAME}:main; derived: failed (ZSET), failed:reasons (HASH)
-- ARGV: none
-- Replies: {number of failed items, REASON, COUNT, ...}; lib/reasons.lua says what a reason is
-- Cost: O(reasons), at most 201 of them
-- include limits numbers clock look

local q = look_at(KEYS[1])
local reply = {redis.call('ZCARD', q.base .. 'failed')}
local reasons = redis.call('HGETALL', q.base .. 'failed:reasons')
for i = 1, #reasons, 2 do
  reply[i + 1], reply[i + 2] = reasons[i], whole(number_in(reasons[i + 1], 0, LAST_NUMBER))
end
return reply
