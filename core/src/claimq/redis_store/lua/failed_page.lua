#!lua flags=no-writes
-- Purpose: a page of a walk through the failed items that filters choose, for a caller that removes them by
--   name after it has them.
-- KEYS: 1 cq:{NAME}:main; derived: failed (ZSET), failed:items (HASH)
-- ARGV: 1 instant in ms at or before which they failed, or "" for now, 2 at least so many ms ago, 3 least
--   times given up, 4 from which instant (-inf: the oldest), 5 how many of that instant were skipped before,
--   6 chunk
-- Replies: {"CHOSEN LOOKED_AT NOW FROM SKIP MORE" (FROM and SKIP are 4 and 5 of the next call, if the chosen
--   are removed before it; MORE is 1 if that call may find more; a page ends after 2 MiB), then FAILED_AT,
--   FIELD, ENVELOPE of each that is chosen}
-- Cost: O(log failed + chunk)
-- include limits numbers clock look counts room stored envelope failed

local q = look_at(KEYS[1])
local until_ms = math.min(tonumber(ARGV[1]) or q.now, q.now - tonumber(ARGV[2]))
local least, from, skip, reply, chosen, looked = tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5]), {''}, 0, 0
local stored, chunk = q.base .. 'failed:items', count_of(ARGV[6], 1)
local ids, scores = page_of(q.base .. 'failed', from, skip, until_ms, chunk)
for i, id in ipairs(ids) do
  local envelope = redis.call('HGET', stored, id)
  looked = i
  if envelope and (parse(q, envelope, '0').meta.given_up or 0) >= least then
    chosen = chosen + 1
    reply[#reply + 1] = scores[i]; reply[#reply + 1] = id; reply[#reply + 1] = envelope
  else from, skip = passed(from, skip, scores[i]) end
  if not has_room(q, #(envelope or '')) then break end
end
reply[1] = walk_text(q, chosen, looked, from, skip, looked < #ids or looked >= chunk)
return reply
