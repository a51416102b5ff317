#!lua flags=no-writes
-- Purpose: looks for an item by id in one bounded stretch of a state.
-- KEYS: 1 cq:{NAME}:main; derived: main:CLIENT, their levels (LIST), leases, delayed (ZSET), busy:WORKER
--   (HASH)
-- ARGV: 1 id, 2 state (main, busy or delayed), 3 client or "-", 4 skip, 5 count
-- Replies: {"FOUND", position, NAME (token or ""), score in ms or "", envelope} or {"NEXT", looked at, 0|1
--   whether there may be more}: it stops after 2 MiB
-- Cost: O(count), and finding them in a list of main, which counts as bytes of the 2 MiB
-- include limits queue counts sizes read_within read_oldest id_check keeper levels unknown read_waiting

local q = open(KEYS[1], {})
local id, state, skip, count = ARGV[1], ARGV[2], tonumber(ARGV[4]), count_of(ARGV[5], 1)
local is_it = new_id_check(id)
if state == 'busy' then
  local wanted = math.min(count, busy_count(q) - skip)  -- the last of the leases is KEEPER
  local page = wanted > 0 and redis.call('ZRANGE', q.leases, whole(skip), whole(skip + wanted - 1),
    'WITHSCORES') or {}
  local looked = 0
  for i = 1, #page, 2 do
    local envelope = redis.call('HGET', q.base .. 'busy:' .. (string.match(page[i], '^(.*)/') or ''), page[i])
    if envelope and is_it(envelope) then return {'FOUND', skip + looked, page[i], page[i + 1], envelope} end
    looked = looked + 1
    if not has_room(q, #(envelope or '')) then return {'NEXT', looked, 1} end
  end
  return {'NEXT', looked, looked == count and 1 or 0}
end
local page = read_waiting(q, state, ARGV[3], skip, count, state == 'main' and largest_in(q, ARGV[3]) or nil)
for i, envelope in ipairs(page) do
  if is_it(envelope) then
    local due = state == 'delayed' and redis.call('ZSCORE', q.delayed, envelope) or ''
    return {'FOUND', skip + i - 1, '', due, envelope}
  end
end
return {'NEXT', #page, (#page == count or not has_room(q, 0)) and 1 or 0}
