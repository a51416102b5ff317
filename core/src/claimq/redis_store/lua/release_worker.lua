#!lua flags=allow-oom
-- Purpose: gives back what a dead worker holds: crashed items counted and to the tail, interrupted ones uncounted and to the head, in order.
-- use: queue call envelope main claims giveback
-- KEYS: 1 cq:{NAME}:main (LIST); derived as in give_back
-- ARGV: 1 instance, 2 lane, 3 call number, 4 worker, 5 kind (crash or interrupt), 6 error, 7 limit
-- Replies: {"OK", "MORE REQUEUED DELAYED FAILED UNCLAIMED"} (more: 0 or 1), {"STALE"}
-- Cost: O(held log held + limit log n)
local q = open(KEYS[1])
local kept = kept_reply(q)
if kept == 'STALE' then return {'STALE'} elseif kept then return {'OK', kept} end
local worker, kind, limit = ARGV[4], ARGV[5], tonumber(ARGV[7])
local busy = q.base .. 'busy:' .. worker
local tokens = redis.call('HKEYS', busy)
redis.call('ZCARD', q.base .. 'leases')
table.sort(tokens, function(a, b) return tonumber(number_of(a)) < tonumber(number_of(b)) end)
local from = kind == 'interrupt' and math.max(#tokens - limit + 1, 1) or 1
local group = {busy = busy, live = {}}
for i = from, math.min(from + limit - 1, #tokens) do group.live[#group.live + 1] = tokens[i] end
if #group.live == 0 then return {'OK', '0 0 0 0 0'} end
local policy, items, verdicts = policy_of(q), {}, {}
q.counts = {}
for i, envelope in ipairs(items_of(group)) do
  local item = parse(envelope, q.now, number_of(group.live[i]))
  length_of(q, item.client)
  verdicts[i] = settle(q, policy, item, kind, ARGV[6], worker)
  items[i] = item
end
let_go(q, busy, group.live)
place(q, policy, items, verdicts)
local n = q.counts
local more = #tokens > #group.live and 1 or 0
local text = format_text('%d %d %d %d %d', more, n.requeued or 0, n.delayed or 0, n.failed or 0, n.unclaimed or 0)
if kind == 'crash' then n.crashes = #items end
close(q, n)
keep_reply(q, text)
return {'OK', text}
