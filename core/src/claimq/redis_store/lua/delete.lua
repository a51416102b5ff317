#!lua flags=allow-oom
-- Purpose: removes a whole queue: its items in all states, the log of removed items, the audit log, its
--   policy and its counters. Only for a queue without workers.
-- KEYS: 1 cq:{NAME}:main (LIST); derived: every key of the queue but calls:INSTANCE, which expires
-- ARGV: 1 instance, 2 lane, 3 call number, 4 "1": only if there is no item in any state, "0": in any case;
--   5 "CLUSTER NAMESPACE NAME UID": only if the queue has no other owner, "": in any case
-- Replies: {"OK", "MAIN BUSY DELAYED FAILED MORE"}: how many items this call removed from each state; MORE is
--   1 if another call is needed: until then the policy and the counters stay. {"HELD" or "OTHER", "MAIN BUSY
--   DELAYED FAILED 0"}: how many there are; nothing has changed. {"STALE"}
-- Cost: as flush
-- include limits numbers clock queue types keeper touch close call levels flush

local q = open(KEYS[1], {'HDEL', 'HINCRBY', 'HSET', 'PEXPIRE', 'UNLINK', 'ZREM'})
local again = kept_reply(q)
if again then return again end
local owner = ARGV[5] ~= '' and redis.call('HGET', q.config, 'owner')
local is_other = owner and string.match(owner, '^(.*) %d+$') ~= ARGV[5]
local counts = {count_in(q, '-') + q.client_items, busy_count(q), redis.call('ZCARD', q.delayed),
  redis.call('ZCARD', q.base .. 'failed')}
local items = counts[1] + counts[2] + counts[3] + counts[4]
if ARGV[4] ~= '0' and items == 0 then  -- lost leases or counters (damage.lua) do not make a queue empty
  for _, name in ipairs(redis.call('ZRANGE', q.workers, 0, 999)) do
    counts[2] = counts[2] + redis.call('HLEN', q.base .. 'busy:' .. name)
  end
  for _, client in ipairs(redis.call('ZRANGE', q.heads, 0, 999)) do
    counts[1] = counts[1] + count_in(q, client)
  end
  items = counts[1] + counts[2]
end
if is_other or (ARGV[4] ~= '0' and items > 0) then
  return {is_other and 'OTHER' or 'HELD', format_text('%d %d %d %d 0', unpack(counts))}
end
local plan = plan_flush(q)
local flushed = flush(q, plan)
if plan.is_last then
  for _, key in ipairs({q.workers, q.base .. 'present', q.base .. 'audit', q.base .. 'added',
    q.base .. 'starts', q.base .. 'pauses', q.config, q.stats}) do
    redis.call('UNLINK', key)
  end
else close(q, {flushed = flushed, client_items = -plan.of_clients}) end
local text = format_text('%d %d %d %d', unpack(plan.counts)) .. (plan.is_last and ' 0' or ' 1')
keep_reply(q, text)
return {'OK', text}
