#!lua
-- Purpose: sends failed items back to the tail of main; their counters restart, their history stays.
-- use: queue call envelope main failed
-- KEYS: 1 cq:{NAME}:main (LIST); derived: main:CLIENT, clients, wake (LIST), heads, failed (ZSET), failed:items, stats, calls:INSTANCE (HASH)
-- ARGV: 1 instance, 2 lane, 3 call number, 4 id or "" for all, 5 failed at or before (ms), 6 at least so many ms ago,
--   7 most times given up or "", 8 from which instant (-inf: the oldest), 9 how many of that instant were skipped before, 10 chunk
-- Replies: {"OK", "REQUEUED LOOKED_AT NOW FROM SKIP"} (the last two are 8 and 9 of the next call), {"STALE"}
-- Cost: O(chunk log failed)
local q = open(KEYS[1])
local kept = kept_reply(q)
if kept == 'STALE' then return {'STALE'} elseif kept then return {'OK', kept} end
local failed, stored = q.base .. 'failed', q.base .. 'failed:items'
local until_ms = math.min(tonumber(ARGV[5]) or q.now, q.now - (tonumber(ARGV[6]) or 0))
local most, ids, scores, from, skip = tonumber(ARGV[7]), nil, {}, ARGV[8], tonumber(ARGV[9])
if ARGV[4] ~= '' then ids = redis.call('ZSCORE', failed, ARGV[4]) and {ARGV[4]} or {}
else ids, scores = page_of(failed, from, skip, until_ms, tonumber(ARGV[10])) end
if #ids == 0 then return {'OK', '0 0 ' .. whole(q.now) .. ' ' .. from .. ' ' .. skip} end
local chosen, fields = {}, {}
redis.call('LLEN', q.base .. 'wake'); length_of(q, '-')
for i, envelope in ipairs(redis.call('HMGET', stored, unpack(ids))) do
  local item = envelope and parse(envelope, q.now, '0')
  if not item or (most and (item.meta.given_up or 0) > most) then from, skip = passed(from, skip, scores[i])
  else
    length_of(q, item.client)
    local meta = item.meta
    remember(item, q.now, 'requeue_failed', '', '')
    restart_wait(item, q.now)
    meta.requeues, meta.fails, meta.crashes, meta.interrupts, meta.error, meta.detail, meta.spent = nil, nil, nil, nil, nil, nil, nil
    chosen[#chosen + 1], fields[#fields + 1] = item, ids[i]
  end
end
for i, item in ipairs(chosen) do
  redis.call('ZREM', failed, fields[i])
  redis.call('HDEL', stored, fields[i])
  tail(q, item.client, {format(item)})
end
if #chosen > 0 then
  wake(q)
  close(q, {failed_requeued = #chosen, client_items = q.more_client_items or 0})
end
local text = format_text('%d %d %d ', #chosen, #ids, q.now) .. from .. ' ' .. skip
if #chosen > 0 then keep_reply(q, text) end
return {'OK', text}
