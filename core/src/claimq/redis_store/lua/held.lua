#!lua flags=no-writes
-- Purpose: a page of the tokens that a worker holds, in no order. A token may come twice, as from HSCAN.
-- KEYS: 1 cq:{NAME}:main; derived: busy:WORKER (HASH)
-- ARGV: 1 worker, 2 cursor: "0" at first, then that of the last reply
-- Replies: {cursor ("0": no more), token...}
-- Cost: O(tokens): all of them if the worker holds at most 5,000; else about 1,000, or 2 MiB of their items
--   where HSCAN reads them too
-- include limits numbers clock look room scan

local ALL_AT_ONCE = 5000
local q = look_at(KEYS[1])
local busy = q.base .. 'busy:' .. ARGV[1]
local reply = {'0'}
local function add(token) reply[#reply + 1] = token end
if redis.call('HLEN', busy) <= ALL_AT_ONCE then
  for _, token in ipairs(redis.call('HKEYS', busy)) do add(token) end
else reply[1] = scan(q, busy, ARGV[2], 1000, add) end
return reply
