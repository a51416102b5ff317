-- Takes a client whose list is empty out of the ring. A ring of more than 500,000 entries is not searched
-- (that many take up to 6 ms): a claim removes the client when its turn comes.
local RING_SEARCH = 500000

local function leave_ring(q, client)
  if redis.call('LLEN', q.clients) > RING_SEARCH then return end
  redis.call('LREM', q.clients, 0, client)
  if client == '-' then redis.call('HSET', q.stats, 'main_in_ring', '0') end
end
