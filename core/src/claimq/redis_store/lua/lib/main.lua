-- Puts items into the lists of main. length_of() comes first (lib/lengths.lua).

local function grow(q, client, more)
  q.lengths[client] = q.lengths[client] + more
  if client ~= '-' then
    q.client_items = q.client_items + more
    q.more_client_items = (q.more_client_items or 0) + more
  end
end

-- Writes the clients that had no items into the ring. Their items were enqueued, or began to wait again, in
-- this call.
local function enter_ring(q)
  local now, heads = whole(q.now), {}
  for i, client in ipairs(q.entering) do heads[2 * i - 1], heads[2 * i] = now, client end
  redis.call('ZADD', q.clients, unpack(entry_tags(q, q.entering)))
  redis.call('ZADD', q.heads, unpack(heads))
  q.entering = nil
end

-- Puts envelopes, oldest first, behind all that waits: in the client's list, or in the one that enter_level()
-- returned. A caller ends with enter_ring() where q.entering (clients that had no items) is set.
local function tail(q, client, envelopes, list)
  if client ~= '-' and q.lengths[client] == 0 then
    q.entering = q.entering or {}
    q.entering[#q.entering + 1] = client
  end
  -- heads has lost the client; damage.lua finds clients of heads that the ring has lost
  if q.unknown and q.unknown[client] then redis.call('ZADD', q.heads, whole(q.now), client) end
  local key, largest = list or key_of(q, client), q.largest
  for i = 1, #envelopes do
    if #envelopes[i] > largest then largest, q.has_grown = #envelopes[i], true end
  end
  q.largest = largest
  if q.weighs then weigh(q, MAIN, envelopes, 1) end
  sliced(envelopes, function(...) redis.call('LPUSH', key, ...) end)
  grow(q, client, #envelopes)
end
