#!lua flags=allow-oom
-- Purpose: ends claims whose work is finished and, in the same step, claims the next items. One call for a
--   worker that takes item after item.
-- KEYS: 1 cq:{NAME}:main; derived keys as in done and claim
-- ARGV: 1 instance, 2 lane, 3 call number, 4 worker, 5 count (1 to 1,000), 6 nonce and 7 incarnation as for
--   claim, 8.. claims to end as for done, last the bytes of the largest item that the caller can take (no
--   limit without)
-- Replies: {"OK", "SEQ NOW FIRST COUNT LEASE_END OVERDUE INCARNATION VERDICT...", envelope...} as claim and
--   done reply. COUNT is 0 if nothing waits, the queue is paused, a verdict is "later", or claim would reply
--   AGAIN. {"LOST", incarnation} as for claim: no claim has ended. {"STALE"}; errors: NOPERM, WRONGTYPE.
-- Cost: as done and claim together
-- include limits queue types counts sizes slices keeper touch close wake expired call durability stored delay
-- include levels claims end_held verdicts write_keys lease take

local q = open(KEYS[1], {'DEL', 'HDEL', 'HINCRBY', 'HSET', 'LPUSH', 'LTRIM', 'PEXPIRE', 'RPOP', 'RPUSH',
  'ZADD', 'ZREM'})
local worker, count, nonce = ARGV[4], count_of(ARGV[5], 1), ARGV[6]
local again = kept_reply(q)
local groups, behind = read_claims(q, 8)
local largest = ARGV[behind]
if again then return claimed_again(q, again, worker, nonce, largest) end
local left = leave_for_later(q, groups)
local waits = durability_of_done(q)
local c = before_claim(q, worker)
for _, group in ipairs(groups) do expect_hash(group.busy) end
if q.incarnation == '' or q.incarnation ~= ARGV[7] then return lost_reply(q, count, nonce) end
if q.has_exclusive then  -- the keys of the items that are done are free
  q.ending = {}
  for _, group in ipairs(groups) do
    for _, token in ipairs(group.tokens) do q.ending[token] = true end
  end
end
-- which may still refuse the call, so it comes before the verdicts
local envelopes = left == 0 and take_for(q, c, count) or {}
local verdicts, lost = end_held(q, groups)
local done = #verdicts - lost
c.leased = c.leased - done
local text = #envelopes > 0 and lease(q, c, envelopes, nonce)
  or format_text('%d %d 0 0 0 %d ', q.seq, q.now, c.overdue) .. q.incarnation
if #envelopes == 0 and done == 0 and not (q.past or q.waiting) then
  touch(q)
  return {'OK', text .. ' ' .. verdict_text(verdicts, left)}
end
local counts = {done = done, lost = lost}
close(q, (#envelopes > 0 or q.past or q.waiting) and counts_of(q, envelopes, counts) or counts)
text = text .. ' ' .. verdict_text(verdicts, left) .. (done > 0 and waits or '')
keep_reply(q, text)
return {'OK', text, unpack(without_larger(envelopes, largest))}
