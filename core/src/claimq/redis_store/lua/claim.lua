#!lua flags=allow-oom
-- Purpose: moves up to COUNT items (2 MiB; 250 that have counters or a history, or 128 KiB of their headers), oldest first and round robin over the clients, from main to busy under new leases.
-- use: queue call envelope main take
-- KEYS: 1 cq:{NAME}:main (LIST); derived: main:CLIENT, clients, wake (LIST), heads, leases, claims, workers, delayed (ZSET),
--   busy:WORKER, config, stats, calls:INSTANCE (HASH)
-- ARGV: 1 instance, 2 lane, 3 call number, 4 worker, 5 count (1 to 1,000), 6 nonce of the tokens: fresh with every call,
--   7 the incarnation of the queue's data that the caller knows, or "" before its first reply
-- Replies: {"OK", "SEQ NOW FIRST COUNT LEASE_END OVERDUE INCARNATION", envelope...}; tokens are WORKER/FIRST.NONCE and on; OVERDUE is 1 if there is
--   something to reap, and 2 more if there is something to repair. Sent again it answers the same, with false for a claim that has ended since.
--   {"EMPTY", now, wait_ms ("": no limit), next_due or "", overdue 0|1, paused 0|1, incarnation};
--   {"AGAIN"}: the ring had many clients whose lists are gone, and has lost these entries now; make a new call;
--   {"LOST", incarnation}: the caller does not know this data: it has not claimed before, or the data that it knows is lost, and with it what withdrew
--   this call; nothing is claimed. A caller that still waits for the reply makes a new call with this incarnation. {"STALE"}; errors: NOPERM, WRONGTYPE
-- Cost: O(COUNT log busy), whatever waits
local q = open(KEYS[1])
local worker, count, nonce = ARGV[4], count_of(ARGV[5], 1), '.' .. ARGV[6]
local busy, leases = q.base .. 'busy:' .. worker, q.leases
local kept = kept_reply(q)
if kept == 'STALE' then return {'STALE'} end
if kept then
  local first, held = string.match(kept, '^%d+ %d+ (%d+) (%d+)')
  local reply, tokens = {'OK', kept}, {}
  for i = 1, tonumber(held) do tokens[i] = worker .. '/' .. whole(first + i - 1) .. nonce end
  for _, envelope in ipairs(redis.call('HMGET', busy, unpack(tokens))) do reply[#reply + 1] = envelope end
  return reply
end
check_permissions(q.base, {'HDEL'})  -- every verdict needs it: what could not be ended is not claimed
local config = redis.call('HMGET', q.config, 'paused', 'busy_expiry_ms', 'claim_wait_ms', 'suspended')
local paused = config[1] == '1' or config[4] == '1'
local due = redis.call('ZRANGE', q.delayed, 0, 0, 'WITHSCORES')[2]
local overdue = due and math.floor(tonumber(due)) <= q.now and 1 or #redis.call('ZRANGEBYSCORE', leases, 0, q.expired_by, 'LIMIT', 0, 1)
local last_seen = redis.call('ZSCORE', q.workers, worker)
expect_hash(busy)
local leased, calls = redis.call('ZCARD', leases), redis.call('ZCARD', q.claims)
q.wake_tokens = redis.call('LLEN', q.wake)
-- A call that was withdrawn may arrive late, after a loss of the data that made it stale. It must not lease items to a process that is gone, so only a
-- caller that knows this data claims. The nonce of the first call names the data.
if q.incarnation == '' or ARGV[7] ~= q.incarnation then
  check_lists(q, count)
  if q.incarnation == '' then
    q.incarnation = ARGV[6]
    redis.call('HSET', q.stats, 'incarnation', q.incarnation)
    touch(q)
  end
  return {'LOST', q.incarnation}
end
-- Numbers grow with the clock, in microseconds, and so also over a loss of data: no queue makes a million claims in a second.
q.first = math.max(q.totals.number + 1, q.now * 1000)
local envelopes = not paused and take(q, count) or {}
if not last_seen or q.now - tonumber(last_seen) >= 5000 then redis.call('ZADD', q.workers, whole(q.now), worker) end
if #envelopes == 0 then
  touch(q)
  if q.stopped then return {'AGAIN'} end
  local wait = config[3] == '' and '' or whole(setting(config[3], 1000, 0, 86400000))
  return {'EMPTY', whole(q.now), wait, due or '', overdue, paused and 1 or 0, q.incarnation}
end
local lease_end = whole(q.now + lease_ms(config[2]))
local holding, leasing, prefix, first = {}, {}, worker .. '/', q.first
for i, envelope in ipairs(envelopes) do
  local token = prefix .. whole(first + i - 1) .. nonce
  holding[2 * i - 1], holding[2 * i] = token, envelope
  leasing[2 * i - 1], leasing[2 * i] = lease_end, token
end
redis.call('HSET', busy, unpack(holding))
if leased == 0 then redis.call('ZADD', leases, '+inf', KEEPER) end
redis.call('ZADD', leases, unpack(leasing))
if leased <= 1 and calls > 0 then redis.call('DEL', q.claims) end  -- nothing was held: all logged calls have ended
redis.call('ZADD', q.claims, whole(q.now), format_text('%d %d ', first, #envelopes) .. ARGV[6] .. ' ' .. worker)
if q.left > 0 then leave_wake_token(q) end
close(q, {claimed = #envelopes, number = first + #envelopes - 1 - q.totals.number, adopted = q.adopted, client_items = q.more_client_items or 0})
local asks_for_repair = calls > 256 and calls % 128 == 0  -- not with each claim while all of the logged calls are live
local text = format_text('%d %d %d %d ', q.seq, q.now, first, #envelopes) .. lease_end .. ' ' .. overdue + (asks_for_repair and 2 or 0) .. ' ' .. q.incarnation
keep_reply(q, text)
return {'OK', text, unpack(envelopes)}
