#!lua flags=no-writes
-- Purpose: items of main, or those of one client, in the order in which they would be claimed now, but for
--   the turns of lower priorities; changes nothing.
-- KEYS: 1 cq:{NAME}:main (LIST); derived: main:CLIENT, their levels, clients (LIST)
-- ARGV: 1 where to begin: a number of items to skip, or the place that the last call replied; 2 count; 3 a
--   client, or nothing for all
-- Replies: {0|1 whether another call may find more, the place to begin that call, envelope...}
-- Cost: O(count) within the first turn of the ring, for one client and for a queue without clients; else
--   O(clients log skip + count) for up to 1,000 clients. More clients are gone over turn by turn, 2,000 lists
--   in a call. Ends after 2 MiB, to which finding items in their lists adds.
-- include limits queue counts sizes read_within read_oldest keeper levels unknown read_waiting

local PLACES = 2000
local q = open(KEYS[1], {})
local skip, round, place, is_empty_turn = string.match(ARGV[1], '^(%d+) ?(%d*) ?(%d*) ?(%d?)$')
local count, got = count_of(ARGV[2], 1), {}
skip = tonumber(skip)
local ring_size = redis.call('LLEN', q.clients)
local known = {}  -- clients of this turn: one may be in the ring twice

-- Adds an item; whether there is room for another. depth: how many items stand before it in its list.
local function add(envelope, depth)
  if not envelope then return true end
  got[#got + 1] = envelope
  return has_room(q, #envelope + bytes_to_find(depth, #envelope)) and #got < count
end

-- The item at a place of all that a client has, from 0; nil if it has no more.
local function item_at(client, place)
  local list, at = list_at(q, client, place)
  return list and redis.call('LINDEX', list, whole(-(at + 1)))
end

local function reply(more, next_place) return {more and 1 or 0, next_place, unpack(got)} end
local function reply_after(skipped)
  return reply(#got == count or not has_room(q, 0), whole(skipped + #got))
end

-- Clients in the order of their turns, from a place of the ring on; the list without a client joins the ring
-- as the last.
local function turn(from, size)
  local names, page = {}, redis.call('LRANGE', q.clients, whole(-(from + size)), whole(-(from + 1)))
  for i = #page, 1, -1 do names[#names + 1] = page[i] end
  if #names < size and not q.main_in_ring then names[#names + 1] = '-' end
  return names
end

-- Goes on in the ring of many clients: `round` items of each list are passed, and `place` lists of this turn.
local function go_over()
  local names, found = turn(place, PLACES), false
  for i, client in ipairs(names) do
    local is_there = not known[client] and count_in(q, client) > round
    known[client], found, place = true, found or is_there, place + 1
    if is_there and skip > 0 then skip = skip - 1
    elseif is_there and not add(item_at(client, round), round) then break end
  end
  local is_end = place >= ring_size + (q.main_in_ring and 0 or 1)
  is_empty_turn = (is_empty_turn ~= '0' and not found) and '1' or '0'
  local more = not (is_end and is_empty_turn == '1')
  if is_end then round, place, is_empty_turn = round + 1, 0, '1' end
  return reply(more, format_text('%d %d %d ', skip, round, place) .. is_empty_turn)
end

if ARGV[3] or ring_size == 0 and round == '' then
  local client = ARGV[3] or '-'
  got = read_waiting(q, 'main', client, skip, count, largest_in(q, client))
  return reply_after(skip)
end
if round ~= '' or ring_size > CALL_ITEMS and skip + count > ring_size then
  round, place = tonumber(round) or 0, tonumber(place) or 0
  return go_over()
end
if skip + count <= ring_size then  -- each client in the ring has an item, unless its list was removed
  for i, client in ipairs(turn(skip, count)) do
    local envelope = not known[client] and item_at(client, 0)
    if not envelope then  -- from here on places of the ring are counted, not items
      round, place, skip = 0, skip + i - 1, 0
      if place > 0 then is_empty_turn = '0' end
      return go_over()
    end
    known[client] = true
    if not add(envelope, 0) then break end
  end
  return reply_after(skip)
end

local ring, longest = {}, 0
for _, client in ipairs(turn(0, ring_size + 1)) do
  local length = known[client] and 0 or count_in(q, client)
  known[client] = true
  if length > 0 then ring[#ring + 1] = {client = client, length = length} end
  longest = math.max(longest, length)
end
local function in_rounds(rounds)
  local sum = 0
  for _, list in ipairs(ring) do sum = sum + math.min(list.length, rounds) end
  return sum
end
local passed, beyond = 0, longest + 1  -- so many whole rounds are skipped
while beyond - passed > 1 do
  local middle = math.floor((passed + beyond) / 2)
  if in_rounds(middle) <= skip then passed = middle else beyond = middle end
end
local left = skip - in_rounds(passed)
while true do
  local still = {}
  for _, list in ipairs(ring) do if list.length > passed then still[#still + 1] = list end end
  if #still == 0 then return reply_after(skip) end
  for _, list in ipairs(still) do
    if left > 0 then left = left - 1
    elseif not add(item_at(list.client, passed), passed) then return reply_after(skip) end
  end
  ring, passed = still, passed + 1
end
