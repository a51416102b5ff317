#!lua flags=allow-oom
-- Purpose: the verdicts fail, permanent, drop, requeue, crash and interrupt: the item goes where its counters and the policy say.
-- use: queue call envelope main claims removed settle answer
-- KEYS: 1 cq:{NAME}:main (LIST); derived: main:CLIENT, clients, wake, removed (LIST), heads, leases, delayed, failed (ZSET),
--   busy:WORKER, failed:items, config, stats, calls:INSTANCE (HASH)
-- ARGV: 1 instance, 2 lane, 3 call number, 4 kind, 5 error, 6 its detail, 7 delay in ms or "" for the policy's, 8.. claims as lib/claims.lua reads them
-- Replies: {"OK", "VERDICT..."}: requeued, delayed:MS, failed, dropped, unclaimed, lost, or later (for which there was no room) for each claim; {"STALE"}. If all are lost nothing is written.
-- Cost: O(claims log n); for the head also reading up to 1,000 items (2 MiB) that were given back before
local q = open(KEYS[1])
local kept = kept_reply(q)
if kept == 'STALE' then return {'STALE'} elseif kept then return {'OK', kept} end
local verdicts, changed = give_back(q, 8, ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7]))
local text = table.concat(verdicts, ' ')
if changed then
  close(q, q.counts)
  keep_reply(q, text)
end
return {'OK', text}
