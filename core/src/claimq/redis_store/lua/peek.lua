#!lua flags=no-writes
-- Purpose: the next items of main in the order in which they would be claimed now, if they are within the
--   first turn of the clients, or those of one client; changes nothing.
-- KEYS: 1 cq:{NAME}:main (LIST); derived: main:CLIENT, their levels (LIST), clients (ZSET)
-- ARGV: 1 how many items to skip, 2 count, 3 and 4 as 1 and 2 of new_outline, or "", 5 a client, or nothing
--   for all
-- Replies: {0: there are no more; 1: another call may find more; 2: go on with places.lua, then envelopes or
--   outlines}
-- Cost: O(count), and O(skip) among many clients. Ends after 2 MiB, to which finding items in their lists
--   adds.
-- include limits numbers clock look counts room read_within read_oldest keeper levels unknown read_waiting
-- include outline

local q = look_at(KEYS[1])
local skip, count, outline = tonumber(ARGV[1]), count_of(ARGV[2], 1), new_outline(ARGV[3], ARGV[4])
local ring_size, reply = redis.call('ZCARD', q.clients), {1}
if ARGV[5] or ring_size == 0 then
  local client = ARGV[5] or '-'
  local page = read_waiting(q, 'main', client, skip, count, largest_in(q, client))
  for i, envelope in ipairs(page) do reply[i + 1] = outline(envelope) end
  if #page < count and has_room(q, 0) then reply[1] = 0 end
  return reply
end
local turn = redis.call('ZRANGE', q.clients, whole(skip), whole(skip + count - 1))
for i = 1, #turn do
  local list = list_at(q, turn[i], 0)  -- may be gone
  local envelope = list and redis.call('LINDEX', list, '-1')
  if not envelope then reply[1] = 2; return reply end
  reply[#reply + 1] = outline(envelope)
  if not has_room(q, #envelope) then return reply end
end
if #turn < count then reply[1] = 2 end
return reply
