#!lua flags=no-writes
-- Purpose: looks for an item by id in one bounded stretch of a state.
-- KEYS: 1 cq:{NAME}:main; derived: main:CLIENT, their levels (LIST), leases, delayed (ZSET), busy:WORKER
--   (HASH)
-- ARGV: 1 id, 2 state (main, busy or delayed), 3 skip, 4 count, then for main its clients ("-": none); skip
--   is of the first of them
-- Replies: {"FOUND", clients before its own, position, NAME (token or ""), score in ms or "", envelope} or
--   {"NEXT", clients that are done, skip in the one after them}: it stops after 2 MiB. Busy and delayed are
--   searched like the items of one client.
-- Cost: O(count + clients), and finding them in a list of main, which counts as bytes of the 2 MiB
-- include limits numbers clock look counts room read_within read_oldest id_check keeper levels unknown
-- include read_waiting

local q = look_at(KEYS[1])
local id, state, skip, count = ARGV[1], ARGV[2], tonumber(ARGV[3]), count_of(ARGV[4], 1)
local is_it, clients = new_id_check(id), {unpack(ARGV, 5)}
if state == 'busy' then
  local wanted = math.min(count, busy_count(q) - skip)  -- the last of the leases is KEEPER
  local page = wanted > 0 and redis.call('ZRANGE', q.leases, whole(skip), whole(skip + wanted - 1),
    'WITHSCORES') or {}
  local looked = 0
  for i = 1, #page, 2 do
    local envelope = redis.call('HGET', q.base .. 'busy:' .. (string.match(page[i], '^(.*)/') or ''), page[i])
    if envelope and is_it(envelope) then
      return {'FOUND', 0, skip + looked, page[i], page[i + 1], envelope}
    end
    looked = looked + 1
    if not has_room(q, #(envelope or '')) then return {'NEXT', 0, skip + looked} end
  end
  if looked == count then return {'NEXT', 0, skip + looked} end
  return {'NEXT', 1, 0}
end
local largest = state == 'main' and {[true] = largest_in(q, '-'), [false] = largest_in(q, '')} or {}
for number, client in ipairs(state == 'main' and clients or {'-'}) do
  local page = read_waiting(q, state, client, skip, count, largest[client == '-'])
  for i, envelope in ipairs(page) do
    if is_it(envelope) then
      local due = state == 'delayed' and redis.call('ZSCORE', q.delayed, envelope) or ''
      return {'FOUND', number - 1, skip + i - 1, '', due, envelope}
    end
  end
  count = count - #page
  if count == 0 or not has_room(q, 0) then return {'NEXT', number - 1, skip + #page} end
  skip = 0
end
return {'NEXT', math.max(#clients, 1), 0}
