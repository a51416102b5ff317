#!lua flags=allow-oom
-- Purpose: adds an entry to the audit log of a queue: who did what to it by hand.
-- use: queue call
-- KEYS: 1 cq:{NAME}:main; derived: audit (LIST), stats, calls:INSTANCE (HASH)
-- ARGV: 1 instance, 2 lane, 3 call number, 4 the entry, at most 4,096 bytes
-- Replies: {"OK", ""}; {"STALE"}; errors: NOPERM, WRONGTYPE, ERR. The log keeps the last 1,000 entries, newest left, each "AT ENTRY" (ms).
-- Cost: O(1)
local AUDIT_ENTRIES, AUDIT_BYTES = 1000, 4096
local q = open(KEYS[1])
local kept = kept_reply(q)
if kept == 'STALE' then return {'STALE'} elseif kept then return {'OK', kept} end
if #ARGV[4] > AUDIT_BYTES then error({err = 'ERR an entry of the audit log has at most ' .. AUDIT_BYTES .. ' bytes'}) end
expect_list(q.audit)
redis.call('LPUSH', q.audit, whole(q.now) .. ' ' .. ARGV[4])
redis.call('LTRIM', q.audit, 0, AUDIT_ENTRIES - 1)
keep_reply(q, '')
return {'OK', ''}
