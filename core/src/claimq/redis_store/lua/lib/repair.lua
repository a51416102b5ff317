-- Finds the traces of lost keys and of calls that were stopped halfway. check_...() reads a bounded part,
-- repair_...() writes.

-- A field of stats says where the last call ended. Any client may have set it; an invalid field counts as 0.
local function rank_in(text) return math.floor(number_in(text, 0, LAST_NUMBER)) end
local function cursor_in(text) return text and #text < 20 and string.match(text, '^%d+$') or '0' end

-- Failed items without their place in the index, and places without an item. An earlier release, refused
-- halfway, left them.
local function check_failed(q, limit)
  local failed, stored, found = q.base .. 'failed', q.base .. 'failed:items', {bodies = {}, places = {}}
  local at = redis.call('HMGET', q.stats, 'repair_failed_rank', 'repair_failed_cursor')
  found.rank, found.cursor = rank_in(at[1]), cursor_in(at[2])
  local page = redis.call('ZRANGE', failed, whole(found.rank), whole(found.rank + limit - 1))
  for _, name in ipairs(page) do
    if redis.call('HEXISTS', stored, name) == 0 then found.places[#found.places + 1] = name end
  end
  found.next_rank = #page < limit and 0 or found.rank + #page - #found.places
  found.next_cursor = scan(q, stored, found.cursor, limit, function(name)
    if not redis.call('ZSCORE', failed, name) then found.bodies[#found.bodies + 1] = name end
  end)
  return found
end

local function repair_failed(q, found)
  if found.next_rank ~= found.rank or found.next_cursor ~= found.cursor then
    redis.call('HSET', q.stats, 'repair_failed_rank', whole(found.next_rank), 'repair_failed_cursor',
      found.next_cursor)
  end
  for _, name in ipairs(found.bodies) do redis.call('ZADD', q.base .. 'failed', whole(q.now), name) end
  for _, name in ipairs(found.places) do redis.call('ZREM', q.base .. 'failed', name) end
  return #found.bodies + #found.places
end

-- Counts the items in the lists of many clients, about 1,000 clients in a call. Items come and go until all
-- are counted, so what the lists hold then is at most what was counted and what has come since the first
-- call, and at least what was counted if nothing has gone. At the end `most` is the first, unless heads lacks
-- clients, and `least` the second.
local COUNTED_CLIENTS = 1000

local function count_clients(q, found, has_all)
  local at = redis.call('HMGET', q.stats, 'repair_clients', 'enqueued', 'requeued', 'unclaimed', 'due',
    'failed_requeued',
    'claimed', 'flushed', 'past_deadline', 'exclusive_waits')
  local came, gone = 0, 0
  for i = 7, 10 do gone = gone + (tonumber(at[i]) or 0) end
  local cursor, counted, came_before, gone_before = string.match(at[1] or '',
    '^([1-9]%d*) (%d+) (%d+) (%d+)$')
  for i = 2, 6 do came = came + (tonumber(at[i]) or 0) end
  local page = redis.pcall('ZSCAN', q.heads, cursor_in(cursor), 'COUNT', COUNTED_CLIENTS)
  if page.err then return end  -- an earlier release's users may not run it
  local items = tonumber(counted) or 0
  for i = 1, #page[2], 2 do
    for _, list in ipairs(lists_of(q, page[2][i])) do
      local length = redis.pcall('LLEN', list)
      if type(length) == 'number' then items = items + length end
    end
  end
  came_before, gone_before = tonumber(came_before) or came, tonumber(gone_before) or gone
  if page[1] == '0' then
    if has_all then found.most = items + math.max(came - came_before, 0) end
    if gone == gone_before then found.least = items end
  end
  local counting = format_text('%s %d %d %d', page[1], items, came_before, gone_before)
  if page[1] ~= '0' or cursor then found.counting = counting end
end

-- Clients with items that are not in the ring (heads knows them), heads of clients without items, and what
-- clients' lists hold in all. At most `limit` clients are to join or to be forgotten; what the lists hold is
-- known once there are no more. Where there are more than 1,000 clients only `limit` heads are looked at,
-- their items are counted in steps, and clients are put back only if the ring is shorter than heads. A ring
-- of more than 10,000 is not read: a client may then be put back although it is there, which gives it two
-- turns until its list is empty.
local READ_RING = 10000

local function check_ring(q, limit)
  local clients, heads, found = q.clients, q.heads, {joining = {}, gone = {}, items = nil}
  local size, at = redis.call('LLEN', clients), rank_in(redis.call('HGET', q.stats, 'repair_heads'))
  found.at, found.next_at = at, 0
  local known = redis.call('ZCARD', heads) + (q.main_in_ring and 1 or 0)
  if size > 1000 then
    count_clients(q, found, known >= size)
    if found.most and q.client_items > found.most then found.items = found.most
    elseif found.least and q.client_items < found.least then found.items = found.least end
  end
  if size > 1000 and size >= known then return found end
  local in_ring, items, are_few = {}, 0, size <= 1000 and known <= 1000
  local are_all = are_few
  for _, client in ipairs(size <= READ_RING and redis.call('LRANGE', clients, 0, -1) or {}) do
    if size <= 1000 and client ~= '-' and not in_ring[client] then items = items + count_in(q, client) end
    in_ring[client] = true
  end
  found.lost_main = size <= READ_RING and q.main_in_ring and not in_ring['-']
  local page = redis.call('ZRANGE', heads, whole(are_few and 0 or at),
    whole(are_few and -1 or at + limit - 1))
  for _, client in ipairs(page) do
    if not in_ring[client] then
      if #found.joining + #found.gone >= limit then are_all = false; break end  -- the next call goes on
      local length = count_in(q, client)
      items = items + length
      local list = length > 0 and found.joining or found.gone
      list[#list + 1] = client
    end
  end
  found.next_at = (are_few or #page < limit) and 0 or at + #page - #found.gone
  if are_all and items ~= q.client_items then found.items = items end
  return found
end

local function repair_ring(q, found)
  local stats = q.stats
  if found.next_at ~= found.at then redis.call('HSET', stats, 'repair_heads', whole(found.next_at)) end
  if found.counting then redis.call('HSET', stats, 'repair_clients', found.counting) end
  for _, client in ipairs(found.joining) do redis.call('LPUSH', q.clients, client) end
  if #found.gone > 0 then forget(q, found.gone) end
  if found.lost_main then redis.call('HSET', stats, 'main_in_ring', '0') end
  if found.items then
    redis.call('HSET', stats, 'client_items', whole(found.items))
    q.client_items = found.items
  end
  return #found.joining + #found.gone + (found.lost_main and 1 or 0) + (found.items and 1 or 0)
end
