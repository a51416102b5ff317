#!lua flags=allow-oom
-- Purpose: adds an entry to the audit log of a queue: who did what to it by hand.
-- KEYS: 1 cq:{NAME}:main; derived: audit, added (LIST), stats, calls:INSTANCE (HASH)
-- ARGV: 1 instance, 2 lane, 3 call number, 4 the entry, at most 4,096 bytes, 5 "1": items are added to the
--   queue, "0": anything else
-- Replies: {"OK", ""}; {"STALE"}; errors: NOPERM, WRONGTYPE, ERR. Both logs have entries "AT ENTRY" (ms),
--   newest left. `added` keeps the last 1,000. `audit` keeps the last 1,000, and those of the last 30 days up
--   to 10,000: what is added pushes out nothing that was removed or changed.
-- Cost: O(1)
-- include limits numbers clock queue types call

local ENTRIES, MOST_ENTRIES, AUDIT_BYTES, KEPT_MS = 1000, 10000, 4096, 2592000000  -- 30 days
local q = open(KEYS[1], {'HSET', 'LPUSH', 'LTRIM', 'PEXPIRE'})
local again = kept_reply(q)
if again then return again end
if #ARGV[4] > AUDIT_BYTES then
  error({err = 'ERR an entry of the audit log has at most ' .. AUDIT_BYTES .. ' bytes'})
end
local log = ARGV[5] == '1' and q.base .. 'added' or q.base .. 'audit'
expect_list(log)
local count, last, old = redis.call('LLEN', log) + 1, log == q.base .. 'added' and ENTRIES or MOST_ENTRIES, 0
for n = 1, math.min(2, count - ENTRIES) do  -- one more than is added, so that a log of old entries shrinks
  local at = tonumber(string.match(redis.call('LINDEX', log, whole(-n)), '^%d+'))
  if at and q.now - at < KEPT_MS then break end
  old = n
end
redis.call('LPUSH', log, whole(q.now) .. ' ' .. ARGV[4])
redis.call('LTRIM', log, 0, whole(math.min(last, count - old) - 1))
keep_reply(q, '')
return {'OK', ''}
