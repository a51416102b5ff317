#!lua flags=allow-oom
-- Purpose: moves up to COUNT items (2 MiB, or 1 MiB in a queue with exclusive keys; 500 where several clients
--   have items; 250 that have counters or a history, or 128 KiB of their headers), by priority, oldest first
--   and round robin over the clients, from main to busy under new leases.
-- KEYS: 1 cq:{NAME}:main (LIST); derived: main:CLIENT, their levels, clients, wake, removed (LIST), heads,
--   leases, claims, workers, present, delayed, failed (ZSET), busy:WORKER, failed:items, config, levels,
--   exclusive, stats, calls:INSTANCE (HASH)
-- ARGV: 1 instance, 2 lane, 3 call number, 4 worker, 5 count (1 to 1,000), 6 nonce of the tokens: fresh with
--   every call, 7 the incarnation of the queue's data that the caller knows, or "" before its first reply, 8
--   the bytes of the largest item that it can take (no limit without)
-- Replies: {"OK", "SEQ NOW FIRST COUNT LEASE_END OVERDUE INCARNATION", envelope...}, with its bytes as a
--   number in place of an envelope that is larger; tokens are WORKER/FIRST.NONCE and on; OVERDUE is 1 if
--   there is something to reap, and 2 more if there is something to repair. Sent again it answers the same,
--   with false for a claim that has ended since.
--   {"EMPTY", now, wait_ms ("": no limit), next_due or "", overdue 0|1, paused 0|1, incarnation};
--   {"AGAIN"}: the ring had many clients whose lists are gone, and has lost these entries now, or all items
--   of the call had passed their deadlines (they are in failed) or wait for an exclusive key (in delayed);
--   make a new call;
--   {"LOST", incarnation}: the caller does not know this data: it has not claimed before, or the data that it
--   knows is lost, and with it what withdrew this call; nothing is claimed. A caller that still waits for the
--   reply makes a new call with this incarnation. {"STALE"}; errors: NOPERM, WRONGTYPE
-- Cost: O(COUNT log busy), whatever waits
-- include limits queue types counts sizes slices keeper touch close wake expired call stored delay levels
-- include write_keys lease take

local q = open(KEYS[1], {'DEL', 'HDEL', 'HINCRBY', 'HSET', 'LPUSH', 'LTRIM', 'PEXPIRE', 'RPOP', 'RPUSH',
  'ZADD', 'ZREM'})
local worker, count, nonce = ARGV[4], count_of(ARGV[5], 1), ARGV[6]
local again = kept_reply(q)
if again then return claimed_again(q, again, worker, nonce, ARGV[8]) end
local c = before_claim(q, worker)
if q.incarnation == '' or q.incarnation ~= ARGV[7] then return lost_reply(q, count, nonce) end
local envelopes = take_for(q, c, count)
if #envelopes == 0 then
  if q.past or q.waiting then
    if q.left > 0 then leave_wake_token(q) end
    close(q, counts_of(q, envelopes, {}))
  else touch(q) end
  if q.stopped or q.past or q.waiting then return {'AGAIN'} end
  local wait = c.wait == '' and '' or whole(setting(c.wait, 1000, 0, 86400000))
  return {'EMPTY', whole(q.now), wait, c.due or '', c.overdue, c.paused and 1 or 0, q.incarnation}
end
local text = lease(q, c, envelopes, nonce)
close(q, counts_of(q, envelopes, {}))
keep_reply(q, text)
return {'OK', text, unpack(without_larger(envelopes, ARGV[8]))}
