#!lua flags=allow-oom
-- Purpose: removes failed items and replies them.
-- KEYS: 1 cq:{NAME}:main; derived: failed (ZSET), failed:items, failed:reasons, stats, calls:INSTANCE
--   (HASH), removed (LIST)
-- ARGV: 1 instance, 2 lane, 3 call number, 4 instant in ms at or before which they failed, or "" for now, 5
--   at least so many ms ago, 6 least times given up, 7 from which instant (-inf: the oldest), 8 how many of
--   that instant were skipped before, 9 chunk, 10 how many of the newest to leave, 11 how many to answer, 12
--   reason to note them by in the log of removed items, or "" for not at all, 13.. ids: only these are
--   removed, whatever the filters except 4; without any id, what the filters choose
-- Replies: {"OK", "REMOVED LOOKED_AT NOW FROM SKIP MORE" (FROM and SKIP are 7 and 8 of the next call, MORE is
--   1 if that call may find more), then FAILED_AT, FIELD, ENVELOPE for up to ARGV[11] of them}; sent again it
--   answers without these; {"STALE"}
-- Cost: O(chunk log failed); at most 100 items that are noted in the log, and 2 MiB of items, or the item
--   that reaches that
-- include limits numbers clock queue types counts room slices touch close call stored envelope
-- include failed removed reasons

local q = open(KEYS[1], {'HDEL', 'HINCRBY', 'HSET', 'LPUSH', 'LTRIM', 'PEXPIRE', 'ZREM'})
local again = kept_reply(q)
if again then return again end
local failed, stored = q.base .. 'failed', q.base .. 'failed:items'
local until_ms = math.min(tonumber(ARGV[4]) or q.now, q.now - (tonumber(ARGV[5]) or 0))
local least, log, ids, scores, from, skip = tonumber(ARGV[6]) or 0, tonumber(ARGV[11]), {}, {}, ARGV[7],
  tonumber(ARGV[8])
for i = 13, #ARGV do ids[#ids + 1] = ARGV[i] end
local named, chunk, looked = count_of(#ids, 0) > 0, count_of(ARGV[9], 1), 0
if ARGV[12] ~= '' then chunk = math.min(chunk, CALL_MOVES) end  -- a line of the log costs as much as a move
if not named then
  local over = redis.call('ZCARD', failed) - tonumber(ARGV[10])
  if over > 0 then ids, scores = page_of(failed, from, skip, until_ms, math.min(chunk, over)) end
end
if #ids == 0 then return {'OK', walk_text(q, 0, 0, from, skip)} end
expect_hash(stored)
expect_hash(q.base .. 'failed:reasons')
local gone, reply = {}, {}
expect_list(q.base .. 'removed')
for i, id in ipairs(ids) do
  local failed_at = redis.call('ZSCORE', failed, id)
  local envelope = redis.call('HGET', stored, id)
  local is_read = (least > 0 and not named) or #gone < log or ARGV[12] ~= ''
  local item = envelope and is_read and parse(q, envelope, '0')
  looked = i
  local is_other = named and (not failed_at or (ARGV[4] ~= '' and tonumber(failed_at) > until_ms))
  if is_other or (item and not named and (item.meta.given_up or 0) < least) then
    from, skip = passed(from, skip, scores[i])
  else
    gone[#gone + 1] = ids[i]
    count_reason(q, reason_in(envelope), -1)
    if item and ARGV[12] ~= '' then note_removed(q, item, ARGV[12]) end
    if envelope and #gone <= log then
      reply[#reply + 1] = failed_at; reply[#reply + 1] = ids[i]; reply[#reply + 1] = envelope
    end
  end
  if not has_room(q, #(envelope or '')) then break end
end
sliced(gone, function(...)
  redis.call('ZREM', failed, ...)
  redis.call('HDEL', stored, ...)
end)
write_reasons(q)
if q.removals then write_removed(q) end
local text = walk_text(q, #gone, looked, from, skip, looked < #ids or looked >= chunk)
if #gone > 0 then
  close(q, {failed_removed = #gone})
  keep_reply(q, text)
end
return {'OK', text, unpack(reply)}
