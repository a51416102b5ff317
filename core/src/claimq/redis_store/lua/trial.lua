#!lua flags=allow-oom
-- Purpose: makes the kinds of calls that the other scripts make, and writes nothing. A server that refuses it
--   cannot run them.
-- KEYS: cq:{NAME}:main (LIST) of a queue, which need not exist; derived: stats (HASH)
-- ARGV: none
-- Replies: {"OK"}; {"UNKNOWN", COMMAND...}: the server does not know these commands; errors: NOPERM,
--   WRONGTYPE
-- Cost: O(1)
-- include limits numbers clock queue

local base, unknown, probes = string.sub(KEYS[1], 1, -5), {}, {}
for _, write in ipairs({
  'DEL', 'HDEL', 'HINCRBY', 'HSET', 'LPUSH', 'LREM', 'LSET', 'LTRIM', 'PEXPIRE', 'RPOP', 'RPUSH', 'UNLINK',
    'ZADD', 'ZREM',
}) do probes[#probes + 1] = {write, base, base, base} end
for _, words in ipairs({
  {'HEXISTS', base, '0'}, {'HGET', base, '0'}, {'HGETALL', base}, {'HKEYS', base}, {'HLEN', base},
    {'HMGET', base, '0'},
  {'HSCAN', base, '0'}, {'HSTRLEN', base, '0'}, {'LINDEX', base, '0'}, {'LLEN', base},
    {'LRANGE', base, '0', '0'},
  {'PUBSUB', 'NUMSUB', base}, {'TIME'}, {'ZCARD', base}, {'ZCOUNT', base, '0', '0'},
  {'ZLEXCOUNT', base, '-', '+'}, {'ZMSCORE', base, '0'},
  {'ZRANGE', base, '0', '0'}, {'ZRANGEBYSCORE', base, '0', '0'},
  {'ZSCORE', base, '0'}, unpack(probes),
}) do
  local is_known, reason = pcall(redis.acl_check_cmd, unpack(words))
  if not is_known then
    local text = type(reason) == 'table' and reason.err or tostring(reason)
    if not string.find(text, 'Invalid command', 1, true) then error(reason) end
    unknown[#unknown + 1] = words[1]
  end
end
if #unknown > 0 then return {'UNKNOWN', unpack(unknown)} end
local q = open(KEYS[1], {})
redis.pcall('LLEN', q.stats)  -- a hash: its error is a value
return {'OK'}
