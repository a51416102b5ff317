#!lua
-- Purpose: sends failed items back to the tail of main; their counters restart, a deadline that has passed
--   ends, their history stays.
-- KEYS: 1 cq:{NAME}:main (LIST); derived: main:CLIENT, their levels, wake (LIST), clients, heads, failed
--   (ZSET), failed:items, failed:reasons, levels, stats, calls:INSTANCE (HASH)
-- ARGV: 1 instance, 2 lane, 3 call number, 4 failed at or before (ms), or "" for now, 5 at least so many ms
--   ago, 6 most times given up or "", 7 from which instant (-inf: the oldest), 8 how many of that instant
--   were skipped before, 9 chunk, 10.. ids: only these, whatever the filters except 4; without any id, what
--   the filters choose
-- Replies: {"OK", "REQUEUED LOOKED_AT NOW FROM SKIP MORE"} (FROM and SKIP are 7 and 8 of the next call, MORE
--   is 1 if that call may find more), {"STALE"}
-- Cost: O(chunk log failed)
-- include limits numbers clock queue types counts room sizes slices touch close wake call stored
-- include envelope levels enter_level tags entry_tags lengths main expect_entry failed reasons

local q = open(KEYS[1], {'HDEL', 'HINCRBY', 'HSET', 'LPUSH', 'PEXPIRE', 'ZADD', 'ZREM'})
local again = kept_reply(q)
if again then return again end
local failed, stored = q.base .. 'failed', q.base .. 'failed:items'
local until_ms = math.min(tonumber(ARGV[4]) or q.now, q.now - (tonumber(ARGV[5]) or 0))
local chunk = math.min(count_of(ARGV[9], 1), CALL_MOVES)
local most, ids, scores, from, skip = tonumber(ARGV[6]), {}, {}, ARGV[7], tonumber(ARGV[8])
local has_names = count_of(#ARGV - 9, 0) > 0
for i = 10, math.min(#ARGV, 9 + chunk) do ids[#ids + 1] = ARGV[i] end
if not has_names then ids, scores = page_of(failed, from, skip, until_ms, chunk) end
if #ids == 0 then return {'OK', walk_text(q, 0, 0, from, skip)} end
local chosen, fields, seen_ids, looked = {}, {}, {}, 0
expect_list(q.base .. 'wake')
expect_hash(stored)
expect_hash(q.base .. 'failed:reasons')
length_of(q, '-')
for i, id in ipairs(ids) do
  local failed_at = has_names and redis.call('ZSCORE', failed, id)
  local envelope = redis.call('HGET', stored, id)
  looked = i
  local is_later = failed_at and ARGV[4] ~= '' and tonumber(failed_at) > until_ms
  local is_other = has_names and (not failed_at or is_later or seen_ids[id])
  seen_ids[id] = true
  local item = envelope and not is_other and parse(q, envelope, '0')
  local is_over = item and most and not has_names and (item.meta.given_up or 0) > most
  if not item or is_over then from, skip = passed(from, skip, scores[i])
  else
    expect_entry(q, item)
    local meta = item.meta
    remember(item, q.now, 'requeue_failed', '', '')
    restart_wait(item, q.now)
    item.reason = meta.reason
    meta.requeues, meta.fails, meta.crashes, meta.interrupts, meta.postponed = nil, nil, nil, nil, nil
    meta.error, meta.detail, meta.reason, meta.spent = nil, nil, nil, nil
    if time_left(meta, q.now) <= 0 then
      meta.options.deadline = nil
      if not next(meta.options) then meta.options = nil end
    end
    chosen[#chosen + 1], fields[#fields + 1] = item, id
  end
  if envelope and not has_room(q, #envelope) then break end
end
for i, item in ipairs(chosen) do
  redis.call('ZREM', failed, fields[i])
  redis.call('HDEL', stored, fields[i])
  count_reason(q, item.reason, -1)
  tail(q, item.client, {format(item)}, enter_level(q, item.client, level_of(item.meta)))
end
if #chosen > 0 then
  write_reasons(q)
  if q.entering then enter_ring(q) end
  leave_wake_token(q)
  close(q, {failed_requeued = #chosen})
end
local text = walk_text(q, #chosen, looked, from, skip, looked < #ids or looked >= chunk)
if #chosen > 0 then keep_reply(q, text) end
return {'OK', text}
