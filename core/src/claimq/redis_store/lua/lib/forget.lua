-- Forgets clients that have no items left in main.
local function forget(q, clients)
  redis.call('ZREM', q.clients, unpack(clients))
  redis.call('ZREM', q.heads, unpack(clients))
  if q.has_levels then redis.call('HDEL', q.base .. 'levels', unpack(clients)) end
end
