#!lua flags=allow-oom
-- Purpose: ends claims whose work is finished and, in the same step, claims the next items. One call for a
--   worker that takes item after item.
-- KEYS: 1 cq:{NAME}:main; derived keys as in done and claim
-- ARGV: 1 instance, 2 lane, 3 call number, 4 worker, 5 count (1 to 1,000) with slots, 6 nonce and 7
--   incarnation as for claim, 8.. claims to end as for done, last the bytes of the largest item that the
--   caller can take (no limit without)
-- Replies: {"OK", "SEQ NOW FIRST COUNT LEASE_END OVERDUE INCARNATION VERDICT...", envelope...} as claim and
--   done reply. COUNT is 0 if nothing waits, the queue is paused, a verdict is "later", or claim would reply
--   AGAIN. {"LOST", incarnation} as for claim: no claim has ended. {"STALE"}; errors: NOPERM, WRONGTYPE.
-- Cost: as done and claim together
-- include limits numbers clock queue types counts count_and_slots room sizes slices touch close wake call
-- include claims

local function done_claim()
  -- include keeper expired durability enqueued_at stored delay levels longest end_turns end_held verdicts
  -- include free_keys write_keys paused before_claim limit_starts lease weigh_out take

  local q = open(KEYS[1], {'DEL', 'HDEL', 'HINCRBY', 'HSET', 'LPUSH', 'LTRIM', 'PEXPIRE', 'RPOP', 'RPUSH',
    'ZADD', 'ZREM'})
  local worker, nonce = ARGV[4], ARGV[6]
  local count, slots = count_and_slots(ARGV[5])
  local again = kept_reply(q)
  local groups, behind = read_claims(q, 8)
  local largest = ARGV[behind]
  if again then return claimed_again(q, again, worker, nonce, largest) end
  local left = leave_for_later(q, groups)
  local waits = durability_of_done(q)
  local c = before_claim(q, worker)
  before_lease(q, c, slots)
  for _, group in ipairs(groups) do expect_hash(group.busy) end
  if q.incarnation == '' or q.incarnation ~= ARGV[7] then return lost_reply(q, count, nonce) end
  if c.limits or q.claimer and q.turns then  -- what this call ends makes room
    c.ending = 0
    local seen = {}
    for _, group in ipairs(groups) do
      local ends = #group.tokens > 0 and redis.call('ZMSCORE', q.leases, unpack(group.tokens)) or {}
      for i, token in ipairs(group.tokens) do
        if ends[i] and not seen[token] then c.ending, seen[token] = c.ending + 1, true end
      end
    end
  end
  if q.claimer then q.claimer.ending = c.ending or 0 end
  -- What the items cost whose claims this call ends, for a bound on that.
  local function ending_cost()
    -- include cost_of
    local sum, seen = 0, {}
    for _, group in ipairs(groups) do
      local ended = #group.tokens > 0 and redis.call('HMGET', group.busy, unpack(group.tokens)) or {}
      for i, envelope in ipairs(ended) do
        if envelope and not seen[group.tokens[i]] then sum = sum + cost_of(envelope) end
        seen[group.tokens[i]] = true
      end
    end
    return sum
  end
  if c.limits then c.ending_cost = ending_cost end
  local released = 0
  if q.has_keys then  -- the keys of the items that are done are free for this call
    check_lists(q, count)
    q.ending = {}
    for _, group in ipairs(groups) do
      for _, token in ipairs(group.tokens) do q.ending[token] = true end
    end
    released, q.has_written = free_keys_of(q, groups), true
  end
  -- it may still refuse the call where nothing is written, so it comes before the verdicts
  local envelopes = left == 0 and take_for(q, c, count) or {}
  local verdicts, lost = end_held(q, groups)
  local done = #verdicts - lost
  if q.freed and #q.freed > 0 then redis.call('HDEL', q.base .. 'keys', unpack(q.freed)) end
  if released > 0 and #envelopes == 0 then leave_wake_token(q) end
  c.leased = c.leased - done
  local text = #envelopes > 0 and lease(q, c, envelopes, nonce)
    or format_text('%d %d 0 0 0 %d ', q.seq, q.now, c.overdue + c.rate_flag) .. q.incarnation
  if #envelopes == 0 and done == 0 and not (q.past or q.waiting) then
    touch(q)
    return {'OK', text .. ' ' .. verdict_text(verdicts, left)}
  end
  local counts = {done = done, lost = lost}
  close(q, (#envelopes > 0 or q.past or q.waiting) and counts_of(q, envelopes, counts) or counts)
  text = text .. ' ' .. verdict_text(verdicts, left) .. (done > 0 and waits or '')
  keep_reply(q, text)
  return {'OK', text, unpack(without_larger(envelopes, largest))}
end
return done_claim()
