#!lua flags=allow-oom
-- Purpose: gives back what a dead worker holds: crashed items counted and to the tail, interrupted ones uncounted and to the head, in order.
-- use: queue call envelope main claims removed giveback
-- KEYS: 1 cq:{NAME}:main (LIST); derived as in give_back
-- ARGV: 1 instance, 2 lane, 3 call number, 4 worker, 5 kind (crash or interrupt), 6 error, 7.. tokens of the worker in the order of claiming
-- Replies: {"OK", "REQUEUED DELAYED FAILED UNCLAIMED"} of those that are still held, {"STALE"}
-- Cost: O(tokens log n); for the head also reading up to 1,000 items (4 MiB) that were given back before
local q = open(KEYS[1])
local kept = kept_reply(q)
if kept == 'STALE' then return {'STALE'} elseif kept then return {'OK', kept} end
local worker, kind = ARGV[4], ARGV[5]
local busy = q.base .. 'busy:' .. worker
redis.call('ZCARD', q.base .. 'leases')
local named, held = {busy = busy, live = {}}, {}
for i = 7, #ARGV do named.live[#named.live + 1] = ARGV[i] end
local policy, items, verdicts = policy_of(q), {}, {}
q.counts = {}
for i, envelope in ipairs(items_of(named)) do
  if envelope then
    local number = number_of(named.live[i])
    local item = parse(envelope, q.now, number)
    item.number = tonumber(number)
    length_of(q, item.client)
    verdicts[#verdicts + 1] = settle(q, policy, item, kind, ARGV[6], worker)
    items[#items + 1], held[#held + 1] = item, named.live[i]
  end
end
if #held == 0 then return {'OK', '0 0 0 0'} end
place(q, policy, items, verdicts)
let_go(q, busy, held)
local n = q.counts
local text = format_text('%d %d %d %d', n.requeued or 0, n.delayed or 0, n.failed or 0, n.unclaimed or 0)
if kind == 'crash' then n.crashes = #items end
close(q, n)
keep_reply(q, text)
return {'OK', text}
