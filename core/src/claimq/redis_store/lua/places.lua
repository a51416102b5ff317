#!lua flags=no-writes
-- Purpose: the items at given places of main, counted among all items of a client from its next one; changes
--   nothing.
-- KEYS: 1 cq:{NAME}:main (LIST); derived: main:CLIENT, their levels (LIST)
-- ARGV: 1 and 2 as 1 and 2 of new_outline, or "", then for each client: its name or "-", its first place,
--   count
-- Replies: {0|1 whether it stopped at 2 MiB, for each client a list of envelopes or outlines: as many as
--   there are}; the clients behind the one where it stopped are missing
-- Cost: O(clients + items), and finding the items in their lists, which counts as bytes of the 2 MiB
-- include limits numbers clock look counts room read_within read_oldest keeper levels unknown read_waiting
-- include outline

local q = look_at(KEYS[1])
local outline, total, reply = new_outline(ARGV[1], ARGV[2]), 0, {0}
local largest = {[true] = largest_in(q, '-'), [false] = largest_in(q, '')}
for at = 3, #ARGV, 3 do
  local client, count, page = ARGV[at], count_of(ARGV[at + 2], 1), {}
  total = count_of(total + count, 1)
  for i, envelope in ipairs(read_waiting(q, 'main', client, tonumber(ARGV[at + 1]), count,
    largest[client == '-'])) do
    page[i] = outline(envelope)
  end
  reply[#reply + 1] = page
  if not has_room(q, 0) then reply[1] = 1; break end
end
return reply
