-- The lists of main: one for items without a client, one for each client, more where a queue has levels, and the ring of clients that have items.
-- length_of() reads (and so finds a key of another type) before the first write; tail() and lib/settle.lua's head() then write.
local function length_of(q, client)
  local lengths = q.lengths
  if not lengths then
    lengths = {}
    q.lengths = lengths
  end
  if not lengths[client] then
    lengths[client] = length_of_list(key_of(q, client)) + (q.seen.levels and in_levels(q, client) or 0)
    -- Whether heads has the client is checked for the first client of each call, and for every client of each sixteenth call.
    if client ~= '-' and (not q.ring or q.seq % 16 == 0) then
      q.ring = q.ring or redis.call('LLEN', q.clients)
      local is_known = redis.call('ZSCORE', q.heads, client)  -- or WRONGTYPE
      if not is_known and lengths[client] > 0 then q.unknown = q.unknown or {}; q.unknown[client] = true end
    end
  end
  return lengths[client]
end

-- Reads what must be known before an item enters main again.
local function expect_entry(q, item)
  length_of(q, item.client)
  local priority = priority_of(item.meta)
  if priority then check_level(q, item.client, priority) end
end

local function grow(q, client, more)
  q.lengths[client] = q.lengths[client] + more
  if client ~= '-' then q.client_items = q.client_items + more; q.more_client_items = (q.more_client_items or 0) + more end
end

-- Writes the clients that had no items into the ring. Their items were enqueued, or began to wait again, in this call.
-- On demand: most calls bring no new client.
local function enter_ring(q)
  local now, heads = whole(q.now), {}
  for i, client in ipairs(q.entering) do heads[2 * i - 1], heads[2 * i] = now, client end
  redis.call('LPUSH', q.clients, unpack(q.entering))
  redis.call('ZADD', q.heads, unpack(heads))
  q.entering = nil
end

-- Takes a client whose list is empty out of the ring: searched for where the ring has at most 500,000 entries (up to 6 ms); in a longer one a claim removes
-- it when its turn comes.
local RING_SEARCH = 500000
local function leave_ring(q, client)
  if redis.call('LLEN', q.clients) > RING_SEARCH then return end
  redis.call('LREM', q.clients, 0, client)
  if client == '-' then redis.call('HSET', q.stats, 'main_in_ring', '0') end
end

-- Puts envelopes, oldest first, behind all that waits: in the client's list, or in the one that enter_level() returned. A caller ends with enter_ring()
-- where q.entering (clients that had no items) is set.
local function tail(q, client, envelopes, list)
  if client ~= '-' and q.lengths[client] == 0 then
    q.entering = q.entering or {}
    q.entering[#q.entering + 1] = client
  end
  if q.unknown and q.unknown[client] then redis.call('ZADD', q.heads, whole(q.now), client) end  -- heads has lost the client; repair puts clients of heads back into the ring
  local key, largest = list or key_of(q, client), q.largest
  for i = 1, #envelopes do
    if #envelopes[i] > largest then largest, q.has_grown = #envelopes[i], true end
  end
  q.largest = largest
  for from = 1, #envelopes, 1000 do redis.call('LPUSH', key, unpack(envelopes, from, math.min(from + 999, #envelopes))) end
  grow(q, client, #envelopes)
end

local function waiting(q)
  return (q.lengths and q.lengths['-'] or redis.call('LLEN', q.main)) + q.client_items
end
