-- The lists of main: one for items without a client, one for each client, and the ring of clients that have items.
-- length_of() reads (and so finds a key of another type) before the first write; tail() and lib/settle.lua's head() then write.
local function length_of(q, client)
  q.lengths = q.lengths or {}
  if not q.lengths[client] then
    local length = redis.pcall('LLEN', key_of(q, client))
    if type(length) == 'table' then
      error(string.find(length.err, '^WRONGTYPE') and {err = 'WRONGTYPE ' .. key_of(q, client) .. ' is not a list'} or length)
    end
    q.lengths[client] = length
    if client ~= '-' and not q.ring then
      q.ring = redis.call('LLEN', q.clients)
      expect_zset(q.heads)
    end
  end
  return q.lengths[client]
end

local function grow(q, client, more)
  q.lengths[client] = q.lengths[client] + more
  if client ~= '-' then q.client_items = q.client_items + more; q.more_client_items = (q.more_client_items or 0) + more end
end

-- Puts envelopes, oldest first, behind all that waits.
local function tail(q, client, envelopes)
  if client ~= '-' and q.lengths[client] == 0 then
    redis.call('LPUSH', q.clients, client)
    redis.call('ZADD', q.heads, enqueued_at(envelopes[1]), client)
  end
  for _, envelope in ipairs(envelopes) do note_size(q, #envelope) end
  sliced(envelopes, 1000, function(list, from, to) redis.call('LPUSH', key_of(q, client), unpack(list, from, to)) end)
  grow(q, client, #envelopes)
end

local function waiting(q)
  return (q.lengths and q.lengths['-'] or redis.call('LLEN', q.main)) + q.client_items
end
