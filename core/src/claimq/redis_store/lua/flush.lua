#!lua flags=allow-oom
-- Purpose: removes every item of a queue, in all states, and the log of removed items. Policy, counters and tokens' numbering stay, so that an old claim cannot match a new one.
-- use: queue call
-- KEYS: 1 cq:{NAME}:main (LIST); derived: every key of the queue but config, stats and calls:INSTANCE
-- ARGV: 1 instance, 2 lane, 3 call number
-- Replies: {"OK", "MAIN BUSY DELAYED FAILED"}: how many there were; {"STALE"}
-- Cost: O(clients + workers) here; the server frees the items in the background
local q = open(KEYS[1])
local kept = kept_reply(q)
if kept == 'STALE' then return {'STALE'} elseif kept then return {'OK', kept} end
local main, busy = redis.call('LLEN', q.main) + q.client_items, busy_count(q)
local delayed, failed = redis.call('ZCARD', q.base .. 'delayed'), redis.call('ZCARD', q.base .. 'failed')
local clients, workers = redis.call('LRANGE', q.base .. 'clients', 0, -1), redis.call('ZRANGE', q.base .. 'workers', 0, -1)
for _, client in ipairs(clients) do if client ~= '-' then redis.call('UNLINK', key_of(q, client)) end end
for _, worker in ipairs(workers) do redis.call('UNLINK', q.base .. 'busy:' .. worker) end
for _, name in ipairs({'main', 'clients', 'heads', 'delayed', 'leases', 'claims', 'failed', 'failed:items', 'removed', 'wake', 'ids'}) do
  redis.call('UNLINK', q.base .. name)
end
redis.call('HSET', q.base .. 'stats', 'client_items', 0, 'main_in_ring', '0')
close(q, {flushed = main + busy + delayed + failed})
local text = format_text('%d %d %d %d', main, busy, delayed, failed)
keep_reply(q, text)
return {'OK', text}
