#!lua flags=allow-oom
-- Purpose: gives back what a dead worker holds: crashed items counted and to the tail, interrupted ones uncounted and to the head, in order.
-- use: queue envelope main claims giveback
-- KEYS: 1 cq:{NAME}:main (LIST); derived as in give_back
-- ARGV: 1 worker, 2 kind (crash or interrupt), 3 error, 4 limit
-- Replies: {"OK", more 0|1, requeued, delayed, failed, unclaimed}. Sending it again gives back only what is still held.
-- Cost: O(held log held + limit log n)
local q = open(KEYS[1])
local worker, kind, limit = ARGV[1], ARGV[2], tonumber(ARGV[4])
local busy = q.base .. 'busy:' .. worker
local tokens = redis.call('HKEYS', busy)
redis.call('ZCARD', q.base .. 'leases')
table.sort(tokens, function(a, b) return tonumber(number_of(a)) < tonumber(number_of(b)) end)
local from = kind == 'interrupt' and math.max(#tokens - limit + 1, 1) or 1
local group = {busy = busy, live = {}}
for i = from, math.min(from + limit - 1, #tokens) do group.live[#group.live + 1] = tokens[i] end
if #group.live == 0 then return {'OK', 0, 0, 0, 0, 0} end
local policy, items, verdicts = policy_of(q), {}, {}
q.counts = {}
for i, envelope in ipairs(items_of(group)) do
  local item = parse(envelope, q.now, number_of(group.live[i]))
  length_of(q, item.client)
  verdicts[i] = settle(q, policy, item, kind, ARGV[3], worker)
  items[i] = item
end
let_go(q, busy, group.live)
place(q, policy, items, verdicts)
local n = q.counts
local reply = {'OK', #tokens > #group.live and 1 or 0, n.requeued or 0, n.delayed or 0, n.failed or 0, n.unclaimed or 0}
if kind == 'crash' then n.crashes = #items end
close(q, n)
return reply
