-- Takes clients out of the ring.
-- Takes a client whose list is empty out of the ring: searched for where the ring has at most 500,000 entries (up to 6 ms); in a longer one a claim removes
-- it when its turn comes.
local RING_SEARCH = 500000

local function leave_ring(q, client)
  if redis.call('LLEN', q.clients) > RING_SEARCH then return end
  redis.call('LREM', q.clients, 0, client)
  if client == '-' then redis.call('HSET', q.stats, 'main_in_ring', '0') end
end
