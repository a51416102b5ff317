#!lua flags=allow-oom
-- Purpose: removes a whole queue: its items in all states, the log of removed items, its policy, its counters. Only for a queue that nobody claims from any more.
-- use: queue call
-- KEYS: 1 cq:{NAME}:main (LIST); derived: every key of the queue but calls:INSTANCE, which ends by itself
-- ARGV: 1 instance, 2 lane, 3 call number, 4 only if there is no item in any state (1) or anyhow (0); 5 "CLUSTER NAMESPACE NAME UID": only if no other owns it; "": anyhow
-- Replies: {"OK", "HELD" or "OTHER", "MAIN BUSY DELAYED FAILED"}: how many there were; with HELD and OTHER nothing has changed; {"STALE"}
-- Cost: O(clients + workers) here; the server frees the items in the background
local q = open(KEYS[1])
local kept = kept_reply(q)
if kept == 'STALE' then return {'STALE'} elseif kept then return {'OK', kept} end
local counts = {redis.call('LLEN', q.main) + q.client_items, busy_count(q),
                redis.call('ZCARD', q.base .. 'delayed'), redis.call('ZCARD', q.base .. 'failed')}
local text = format_text('%d %d %d %d', unpack(counts))
local owner = ARGV[5] ~= '' and redis.call('HGET', q.base .. 'config', 'owner')
if owner and string.match(owner, '^(.*) %d+$') ~= ARGV[5] then return {'OTHER', text} end
if ARGV[4] == '1' and counts[1] + counts[2] + counts[3] + counts[4] > 0 then return {'HELD', text} end
local clients, workers = redis.call('LRANGE', q.base .. 'clients', 0, -1), redis.call('ZRANGE', q.base .. 'workers', 0, -1)
for _, client in ipairs(clients) do if client ~= '-' then redis.call('UNLINK', key_of(q, client)) end end
for _, worker in ipairs(workers) do redis.call('UNLINK', q.base .. 'busy:' .. worker) end
for _, name in ipairs({'main', 'clients', 'heads', 'delayed', 'leases', 'claims', 'workers', 'failed', 'failed:items', 'removed', 'config', 'stats', 'wake', 'ids'}) do
  redis.call('UNLINK', q.base .. name)
end
keep_reply(q, text)
return {'OK', text}
