#!lua flags=allow-oom
-- Purpose: pauses a queue, or one of its clients or keys, or ends that. It may exceed the server's memory
--   limit: a pause is what helps a full server.
-- KEYS: 1 cq:{NAME}:main (LIST); derived: main:CLIENT, their levels, wake (LIST), clients, heads,
--   delayed, held (ZSET), pauses, keys, delayed:clients, shares, config, stats (HASH)
-- ARGV: 1 part: "queue", "client NAME" or "key KEY", 2 until: an instant in ms, "+MS" from now, "" for no
--   end, or "resume" to end the pause, 3 by, 4 reason
-- Replies: {"OK", whether the part was paused 0|1}; {"PAST"}: the pause would have ended already; {"FULL"}:
--   100 clients, or keys, are paused; with these nothing has changed
-- Cost: O(pauses), at most 200, and O(log n) for the items that go on
-- include limits numbers clock queue types room sizes slices touch close wake enqueued_at stored levels
-- include paused pauses pause

local q = open(KEYS[1], {'HDEL', 'HINCRBY', 'HSET', 'LPUSH', 'LTRIM', 'RPUSH', 'ZADD', 'ZREM'})
local part, ends = ARGV[1], nil
check_pauses(q)
local was_paused = paused_until(q, part) and 1 or 0
if ARGV[2] == 'resume' then
  if end_pauses(q, {part}) > 0 then close(q, {}) end
  return {'OK', was_paused}
end
if ARGV[2] ~= '' then
  local after = string.match(ARGV[2], '^%+(%d+)$')
  ends = after and q.now + after or tonumber(ARGV[2])
  if not ends or ends <= q.now then return {'PAST'} end
  ends = math.min(ends, NEVER_MS)
end
if not set_pause(q, part, ends, ARGV[3], ARGV[4]) then return {'FULL'} end
return {'OK', was_paused}
