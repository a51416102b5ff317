#!lua flags=no-writes
-- Purpose: the items of main in the order in which they would be claimed now; changes nothing.
-- use: queue
-- KEYS: 1 cq:{NAME}:main (LIST); derived: main:CLIENT, clients (LIST)
-- ARGV: 1 skip, 2 count
-- Replies: {envelope...}
-- Cost: O(skip + count)
local q = open(KEYS[1])
local skip, count = tonumber(ARGV[1]), tonumber(ARGV[2])
local ring, got, passed = redis.call('LRANGE', q.base .. 'clients', 0, -1), {}, 0
if #ring == 0 then
  local page = redis.call('LRANGE', q.main, -(skip + count), -(skip + 1))
  for i = #page, 1, -1 do got[#got + 1] = page[i] end
  return got
end
if not q.main_in_ring then table.insert(ring, 1, '-') end
local round = 1
while #got < count and #ring > 0 do
  local still = {}
  for i = #ring, 1, -1 do
    if #got >= count then break end
    local envelope = redis.call('LINDEX', key_of(q, ring[i]), -round)
    if envelope then
      table.insert(still, 1, ring[i])
      if passed < skip then passed = passed + 1 else got[#got + 1] = envelope end
    end
  end
  ring, round = still, round + 1
end
return got
