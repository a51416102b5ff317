#!lua flags=no-writes
-- Purpose: the items of main in the order in which they would be claimed now; changes nothing.
-- use: queue
-- KEYS: 1 cq:{NAME}:main (LIST); derived: main:CLIENT, clients (LIST)
-- ARGV: 1 skip, 2 count
-- Replies: {envelope...}
-- Cost: O(count) within the first turn of the ring; else O(clients log skip + count), and what finding a place in a list costs
local q = open(KEYS[1])
local skip, count = tonumber(ARGV[1]), tonumber(ARGV[2])
local clients, got = q.base .. 'clients', {}
local in_ring = redis.call('LLEN', clients)
if in_ring == 0 then
  local page = redis.call('LRANGE', q.main, -(skip + count), -(skip + 1))
  for i = #page, 1, -1 do got[#got + 1] = page[i] end
  return got
end
if skip + count <= in_ring then  -- whoever is in the ring has an item
  local turn = redis.call('LRANGE', clients, -(skip + count), -(skip + 1))
  for i = #turn, 1, -1 do got[#got + 1] = redis.call('LINDEX', key_of(q, turn[i]), -1) or nil end
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
while #got < count do
  round = round + 1
  local still = {}
  for _, list in ipairs(ring) do if list.length >= round then still[#still + 1] = list end end
  if #still == 0 then return got end
  local step = math.max(math.floor(count / #still), 1)
  for _, list in ipairs(still) do
    if skip > 0 then skip = skip - 1
    else
      if not list.upto or round > list.upto then  -- some rounds at once: a place deep in a list is found by counting
        list.from, list.upto = round, round + step - 1
        list.page = redis.call('LRANGE', list.key, -list.upto, -round)
      end
      got[#got + 1] = list.page[#list.page - (round - list.from)]
      if #got == count then return got end
    end
  end
  ring = still
end
return got
