#!lua
-- Purpose: adds new items at the tail of main, or to delayed, of one or more queues, all or none.
-- KEYS: one cq:{NAME}:main (LIST) for each queue (at most 100); the others are derived from it: main:CLIENT,
--   their levels (LIST), clients, heads, delayed, ids (ZSET), config, levels, keys, stats,
--   delayed:clients, calls:INSTANCE (HASH), wake (LIST)
-- ARGV: 1 instance, 2 lane, 3 call number; then groups as lib/enqueue.lua reads them, with GUARD 0
-- Replies: {"OK", "SEQ NOW LENGTH... | DUPLICATE..."} (a length for each queue; 0-based positions of items
--   whose id is known) with "|replicated:N" or "|fsynced:N" at its end if the caller must wait for that;
--   {"TOO_LARGE", position, size, limit}, {"COSTLY", ...} of lib/enqueue.lua, {"FULL", ...} of
--   lib/bound.lua, {"STALE"}; errors: OOM, WRONGTYPE. Nothing is written but with OK.
-- Cost: O(items); O(log n) more for an item with a delay or an id of its own
-- include limits fast_enqueue numbers clock queue types counts room sizes slices touch close wake call
-- include durability levels tags entry_tags lengths main enqueue

local function check_bound(q, place, groups)
  -- include weights bound
  return over_bound(q, place, groups)
end

-- Whether a queue takes as many more items. Queues without a bound pay for one comparison.
local function check_bounds(queues, groups)
  for i, q in ipairs(queues) do
    local refusal = q.bound and check_bound(q, i, groups)
    if refusal then return refusal end
  end
end

local WRITES = {'HINCRBY', 'HSET', 'LPUSH', 'PEXPIRE', 'ZADD', 'ZREM'}
local queues, duplicates = open_others(open(KEYS[1], WRITES), WRITES), {}
local again = kept_reply(queues[1])
if again then return again end
local groups = read_groups(queues, 4)
local refusal = check_groups(groups, duplicates) or check_bounds(queues, groups)
if refusal then return refusal end
for _, q in ipairs(queues) do length_of(q, '-') end
for _, group in ipairs(groups) do write_group(group) end
local reply = {}
for _, q in ipairs(queues) do
  if q.enqueued then
    if q.entering then enter_ring(q) end
    leave_wake_token(q)
    close(q, {enqueued = q.enqueued})
  end
  reply[#reply + 1] = whole(q.lengths['-'] + q.client_items)
end
local text = whole(queues[1].seq) .. ' ' .. whole(queues[1].now) .. ' ' .. table.concat(reply, ' ') .. ' | '
  .. table.concat(duplicates, ' ') .. strictest(queues)
keep_reply(queues[1], text)
return {'OK', text}
