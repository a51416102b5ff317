#!lua flags=allow-oom
-- Purpose: removes failed items for good and answers what they were.
-- use: queue call envelope
-- KEYS: 1 cq:{NAME}:main; derived: failed (ZSET), failed:items, stats, calls:INSTANCE (HASH)
-- ARGV: 1 instance, 2 lane, 3 call number, 4 instant in ms at or before which they failed, or "" for now, 5 at least so many ms ago,
--   6 least times given up, 7 skip, 8 chunk, 9 how many to answer, 10.. ids: if any are given just these are removed, whatever the filters
-- Replies: {"OK", "REMOVED SKIPPED LOOKED_AT NOW" (skipped: of this chunk), then FAILED_AT, FIELD, ENVELOPE for up to ARGV[9] of them};
--   sent again it answers without these; {"STALE"}
-- Cost: O(chunk log failed)
local q = open(KEYS[1])
local kept = kept_reply(q)
if kept == 'STALE' then return {'STALE'} elseif kept then return {'OK', kept} end
local failed, stored = q.base .. 'failed', q.base .. 'failed:items'
local until_ms = math.min(tonumber(ARGV[4]) or q.now, q.now - (tonumber(ARGV[5]) or 0))
local least, log, ids = tonumber(ARGV[6]) or 0, tonumber(ARGV[9]), {}
for i = 10, #ARGV do ids[#ids + 1] = ARGV[i] end
local named = #ids > 0
if not named then ids = redis.call('ZRANGEBYSCORE', failed, '-inf', until_ms, 'LIMIT', tonumber(ARGV[7]), tonumber(ARGV[8])) end
if #ids == 0 then return {'OK', '0 0 0 ' .. whole(q.now)} end
local gone, reply, skipped = {}, {}, 0
for i, envelope in ipairs(redis.call('HMGET', stored, unpack(ids))) do
  local item = envelope and parse(envelope, q.now, '0')
  local failed_at = redis.call('ZSCORE', failed, ids[i])
  if (named and not failed_at) or (item and not named and (item.meta.given_up or 0) < least) then skipped = skipped + 1
  else
    gone[#gone + 1] = ids[i]
    if envelope and #gone <= log then
      reply[#reply + 1] = failed_at; reply[#reply + 1] = ids[i]; reply[#reply + 1] = envelope
    end
  end
end
sliced(gone, 1000, function(list, from, to)
  redis.call('ZREM', failed, unpack(list, from, to))
  redis.call('HDEL', stored, unpack(list, from, to))
end)
local text = format_text('%d %d %d %d', #gone, skipped, #ids, q.now)
if #gone > 0 then
  close(q, {failed_removed = #gone})
  keep_reply(q, text)
end
return {'OK', text, unpack(reply)}
