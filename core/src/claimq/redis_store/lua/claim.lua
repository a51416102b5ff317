#!lua flags=allow-oom
-- Purpose: moves up to COUNT items (2 MiB, or 1 MiB in a queue with keys; 500 where several clients
--   have items; 250 that have counters or a history, or 128 KiB of their headers), by priority, oldest first
--   and round robin over the clients, from main to busy under new leases.
-- KEYS: 1 cq:{NAME}:main (LIST); derived: main:CLIENT, their levels, wake, removed (LIST), clients, heads,
--   leases, claims, workers, present, delayed, failed (ZSET), busy:WORKER, failed:items, failed:reasons,
--   delayed:clients, config, levels, keys, pauses, slots, stats, calls:INSTANCE (HASH)
-- ARGV: 1 instance, 2 lane, 3 call number, 4 worker, 5 count (1 to 1,000), and behind a space the worker's
--   slots, if it names them, 6 nonce of the tokens: fresh with every call, 7 the incarnation of the queue's
--   data that the caller knows, or "" before its first reply, 8 the bytes of the largest item that it can
--   take ("": no limit), 9 how long it waits for an item (ms; "": as long as the policy says)
-- Replies: {"OK", "SEQ NOW FIRST COUNT LEASE_END OVERDUE INCARNATION", envelope...}, with its bytes as a
--   number in place of an envelope that is larger; tokens are WORKER/FIRST.NONCE and on; OVERDUE is 1 if
--   there is something to reap, 2 more if there is something to repair, and 4 more if the queue limits how
--   many items start in a time, or keeps slots free: claim nothing ahead. Sent again it answers the same,
--   with false for a claim that has ended since.
--   {"EMPTY", now, wait_ms ("": no limit), next_due or "", overdue 0|1, 1 if the queue is paused, or the
--   clients of all its items, 2 if limits, a closing or kept slots hold items back, else 0, incarnation,
--   number of workers that were seen within 20 s};
--   {"AGAIN"}: the ring had many clients whose lists are gone, and has lost these entries now, or all items
--   of the call had passed their deadlines (they are in failed) or wait for a key (in delayed);
--   make a new call;
--   {"LOST", incarnation}: the caller does not know this data: it has not claimed before, or the data that it
--   knows is lost, and with it what withdrew this call; nothing is claimed. A caller that still waits for the
--   reply makes a new call with this incarnation. {"STALE"}; errors: NOPERM, WRONGTYPE
-- Cost: O(COUNT log busy), whatever waits
-- include limits numbers clock queue counts count_and_slots touch expired call paused before_claim

local q = open(KEYS[1], {'HSET', 'ZADD'})
local worker, nonce = ARGV[4], ARGV[6]
local count, slots = count_and_slots(ARGV[5])
local again = kept_reply(q)
local c = not again and before_claim(q, worker)

-- How long a claim waits, by the policy.
local function wait_of_policy() return c.wait == '' and '' or whole(setting(c.wait, 1000, 0, 86400000)) end

local function empty_reply(wait, reason)
  return {'EMPTY', whole(q.now), wait, c.due or '', c.overdue, reason, q.incarnation,
    redis.call('ZCOUNT', q.workers, whole(q.now - 20000), '+inf')}
end

local function count_in_levels()
  -- include levels
  return in_levels(q, '-')
end

-- Whether nothing waits in main, and nothing but a pause of the queue may hold items back.
local function is_empty()
  q.in_main = redis.call('LLEN', q.main)
  return q.in_main == 0 and not (c.limits or q.limits or q.pauses) and (not q.has_keys or q.has_keys == '1')
    and redis.call('ZCARD', q.clients) == 0 and q.client_items == 0
    and not (q.has_levels and count_in_levels() > 0)
end

-- Most claims of idle workers end here, before what takes items is defined (docs/decisions/waiting.md).
if c and q.incarnation == ARGV[7] and q.incarnation ~= '' and is_empty() then
  if c.is_late then redis.call('ZADD', q.workers, whole(q.now), worker) end
  touch(q)
  return empty_reply(wait_of_policy(), c.paused and not c.is_closed and 1 or 0)
end
local function claim_items()
  -- include types room sizes slices keeper close wake enqueued_at stored delay levels write_keys lease
  -- include limit_starts weigh_out take

  check_writes(q.base, {'DEL', 'HDEL', 'HINCRBY', 'LPUSH', 'LTRIM', 'PEXPIRE', 'RPOP', 'RPUSH', 'ZREM'})
  if again then return claimed_again(q, again, worker, nonce, ARGV[8]) end
  before_lease(q, c, slots)
  if q.incarnation == '' or q.incarnation ~= ARGV[7] then return lost_reply(q, count, nonce) end

  local function is_rest_paused()
    -- include pauses
    return q.left <= count_paused(q)
  end

  local envelopes = take_for(q, c, count)
  if #envelopes == 0 then
    if q.past or q.waiting then
      if q.left > 0 then leave_wake_token(q) end
      close(q, counts_of(q, envelopes, {}))
    else touch(q) end
    if q.stopped or q.past or q.waiting then return {'AGAIN'} end
    local wait = wait_of_policy()
    local waits = tonumber(ARGV[9]) or tonumber(wait) or math.huge
    local start = c.next_start and q.left > 0 and c.next_start or c.key_start
    if start and c.key_start then start = math.min(start, c.key_start) end
    if start and start - q.now <= waits then
      -- One worker waits for the instant when a rate lets the next item start. Its claim leaves a wake token.
      -- The others sleep as if nothing waited, so that they do not all come at that instant.
      local at, waiter = string.match(redis.call('HGET', q.stats, 'limits_waiter') or '', '^(%d+) (.*)$')
      at = tonumber(at) or 0
      if at <= q.now or at > start or waiter == worker then
        redis.call('HSET', q.stats, 'limits_waiter', whole(start) .. ' ' .. worker)
        c.due = whole(math.min(tonumber(c.due) or start, start))
      end
    end
    local reason = (q.is_kept or c.limits and (q.is_full or q.left > 0 or c.key_start)) and 2 or 0
    if c.is_closed then reason = q.client_items + count_in(q, '-') > 0 and 2 or 0
    elseif c.paused or q.pauses and q.left > 0 and is_rest_paused() then reason = 1 end
    return empty_reply(wait, reason)
  end
  local text = lease(q, c, envelopes, nonce)
  close(q, counts_of(q, envelopes, {}))
  keep_reply(q, text)
  return {'OK', text, unpack(without_larger(envelopes, ARGV[8]))}
end
return claim_items()
