#!lua flags=allow-oom
-- Purpose: ends claims whose work is finished; their items are gone.
-- use: queue call claims
-- KEYS: 1 cq:{NAME}:main; derived: leases (ZSET), busy:WORKER, stats, calls:INSTANCE (HASH)
-- ARGV: 1 instance, 2 lane, 3 call number, 4.. claims as lib/claims.lua reads them
-- Replies: {"OK", "VERDICT..."}: done or lost for each claim, with "|replicated" or "|fsynced" at its end where the caller is to wait for that; {"STALE"}. If all are lost nothing is written.
-- Cost: O(claims log busy)
local q = open(KEYS[1])
local kept = kept_reply(q)
if kept == 'STALE' then return {'STALE'} elseif kept then return answer_again(q, kept) end
local groups = read_claims(q, 4)
local config = redis.call('HMGET', q.base .. 'config', 'durability', 'durable_done')
local waits = durability(config[2] == '1' and config[1])
local verdicts, lost = end_held(q, groups)
if lost == #verdicts then return {'OK', table.concat(verdicts, ' ')} end
close(q, {done = #verdicts - lost, lost = lost})
local text = table.concat(verdicts, ' ') .. waits
keep_reply(q, text)
return {'OK', text}
