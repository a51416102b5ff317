#!lua flags=allow-oom
-- Purpose: ends claims whose work is finished; their items are gone.
-- KEYS: 1 cq:{NAME}:main; derived: wake (LIST), leases (ZSET), busy:WORKER, stats, calls:INSTANCE (HASH), and
--   those of lib/free_keys.lua
-- ARGV: 1 instance, 2 lane, 3 call number, 4.. claims as lib/claims.lua reads them
-- Replies: {"OK", "VERDICT..."}: done, lost, or later (left for another call) for each claim; then
--   "|replicated:N" or "|fsynced:N" if the caller must wait for that; {"STALE"}. If all are lost nothing is
--   written.
-- Cost: O(claims log busy); at most 8 MiB of items, or the item that reaches that
-- include limits numbers clock queue types counts touch close wake call durability claims longest end_turns
-- include end_held verdicts free_keys

local q = open(KEYS[1], {'HDEL', 'HINCRBY', 'HSET', 'LPUSH', 'PEXPIRE', 'ZREM'})
local again = kept_reply(q)
if again then return again end
local groups = read_claims(q, 4)
local left = leave_for_later(q, groups)
local waits = durability_of_done(q)
for _, group in ipairs(groups) do expect_hash(group.busy) end
if q.has_keys and free_keys_of(q, groups) > 0 then leave_wake_token(q) end
local verdicts, lost = end_held(q, groups)
if lost == #verdicts then return {'OK', verdict_text(verdicts, left)} end
close(q, {done = #verdicts - lost, lost = lost})
local text = verdict_text(verdicts, left) .. waits
keep_reply(q, text)
return {'OK', text}
