#!lua flags=no-writes
-- Purpose: the items of main, or those of one client, in the order in which they would be claimed now; changes nothing.
-- use: queue
-- KEYS: 1 cq:{NAME}:main (LIST); derived: main:CLIENT, clients (LIST)
-- ARGV: 1 skip, 2 count, 3 the client, or nothing for all
-- Replies: {0|1 whether it stopped at 2 MiB before COUNT, envelope...}
-- Cost: O(skip + count) for one client; else O(count) within the first turn of the ring; else O(clients log skip + count), and what finding a place in a list costs
local q = open(KEYS[1])
local skip, count = tonumber(ARGV[1]), count_of(ARGV[2], 1)
local clients, got = q.base .. 'clients', {0}
local in_ring = redis.call('LLEN', clients)
if in_ring == 0 or ARGV[3] then
  local page = read_oldest(q, key_of(q, ARGV[3] or '-'), skip, count)
  if #page < count and not has_room(q, 0) then got[1] = 1 end
  for i, envelope in ipairs(page) do got[i + 1] = envelope end
  return got
end

-- Adds an item; whether to go on.
local function add(envelope)
  got[#got + 1] = envelope or nil
  if #got > count then return false end
  if has_room(q, #(envelope or '')) then return true end
  got[1] = 1
  return false
end
if skip + count <= in_ring then  -- whoever is in the ring has an item
  local turn = redis.call('LRANGE', clients, -(skip + count), -(skip + 1))
  for i = #turn, 1, -1 do
    if not add(redis.call('LINDEX', key_of(q, turn[i]), -1)) then break end
  end
  return got
end

-- Those whose turns come, the next one first, with how many items they have; the list without a client joins the ring as the last.
local names, ring, longest = redis.call('LRANGE', clients, 0, -1), {}, 0
if not q.main_in_ring then table.insert(names, 1, '-') end
for i = #names, 1, -1 do
  local length = redis.call('LLEN', key_of(q, names[i]))
  if length > 0 then ring[#ring + 1] = {key = key_of(q, names[i]), length = length} end
  longest = math.max(longest, length)
end
local function in_rounds(rounds)
  local sum = 0
  for _, list in ipairs(ring) do sum = sum + math.min(list.length, rounds) end
  return sum
end
local round, beyond = 0, longest + 1  -- so many whole rounds are skipped
while beyond - round > 1 do
  local middle = math.floor((round + beyond) / 2)
  if in_rounds(middle) <= skip then round = middle else beyond = middle end
end
skip = skip - in_rounds(round)
while true do
  round = round + 1
  local still = {}
  for _, list in ipairs(ring) do if list.length >= round then still[#still + 1] = list end end
  if #still == 0 then return got end
  for _, list in ipairs(still) do
    if skip > 0 then skip = skip - 1
    elseif not add(redis.call('LINDEX', list.key, -round)) then return got end
  end
  ring = still
end
