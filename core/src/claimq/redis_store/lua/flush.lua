#!lua flags=allow-oom
-- Purpose: removes items in all states, and the log of removed items. The policy, the counters and the
--   numbering of tokens stay, so that an old token never names a new claim.
-- KEYS: 1 cq:{NAME}:main (LIST); derived: every key of the queue but config and calls:INSTANCE
-- ARGV: 1 instance, 2 lane, 3 call number
-- Replies: {"OK", "MAIN BUSY DELAYED FAILED MORE"}: how many items this call removed from each state; MORE is
--   1 if another call is needed; {"STALE"}
-- Cost: at most 1,000 claims, 500 clients and 8 MiB that the server frees at once; it frees the rest in the
--   background
-- include limits numbers clock queue types keeper touch close call levels flush unknown

local q = open(KEYS[1], {'HDEL', 'HINCRBY', 'HSET', 'PEXPIRE', 'UNLINK', 'ZREM'})
local again = kept_reply(q)
if again then return again end
local plan = plan_flush(q)
-- Payloads of other clients that were no items yet have come in too, since they are counted as flushed. Keys
-- of another type refuse no flush: it is the cure for them.
local is_known, bare = pcall(unknown_in_main, q)
bare = is_known and math.max(bare or 0, 0) or 0
local flushed = flush(q, plan)
local adopted = redis.call('LLEN', q.main) == 0 and bare or 0
close(q, {flushed = flushed, adopted = adopted, client_items = -plan.of_clients})
if plan.is_last then
  redis.call('HSET', q.stats, 'client_items', 0)
  redis.call('HDEL', q.stats, 'levels', 'keys', 'turns', 'reserve')
end
local text = format_text('%d %d %d %d', unpack(plan.counts)) .. (plan.is_last and ' 0' or ' 1')
keep_reply(q, text)
return {'OK', text}
