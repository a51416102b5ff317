-- Takes up to want items from main. Sets q.adopted (bare payloads given a header), q.left (what still waits, roughly) and q.stopped (there may be
-- more at once).
local function is_alone(envelope) return string.sub(envelope, 1, 4) == 'cq1!' end

-- The header of an item that has counters or a history takes as long to check as four items without. So a call claims at most 250 such items.
local META_WEIGHT = 4

-- Counts an item of a call that wants many; whether the call has enough.
local function has_enough(q, envelope)
  if not q.is_weighed then return false end
  q.weight = (q.weight or 0) + (string.find(envelope, '^cq1[ !][!-~]+ %d+ [!-~]+ {') and META_WEIGHT or 1)
  return q.weight >= CALL_ITEMS
end

-- Gives a bare payload its header, so that everything behind main knows one form only.
local function adopt(q, got)
  for i, envelope in ipairs(got) do
    if not read_header(envelope) then
      q.adopted = q.adopted + 1
      got[i] = format(parse(q, envelope, whole(q.first + i - 1)))
    end
    note_size(q, #got[i])
  end
end

-- One list only: the oldest of it in one go. An item that has crashed a worker is claimed alone: it is the only one of its batch.
local function take_list(q, client, want)
  local list = key_of(q, client)
  local got = read_oldest(q, list, 0, want, nil, header_bytes)
  for i, envelope in ipairs(got) do
    local first_left = is_alone(envelope) and math.max(i, 2) or has_enough(q, envelope) and i + 1
    if first_left then
      for last = #got, first_left, -1 do got[last] = nil end
      break
    end
  end
  if #got > 0 then redis.call('LTRIM', list, 0, -(#got + 1)) end
  return got
end

-- After count items left a client's list: its place in the ring and the age of its oldest item.
local function settle_client(q, client, count)
  q.more_client_items = (q.more_client_items or 0) - count
  q.client_items = q.client_items - count
  local oldest = redis.call('LINDEX', key_of(q, client), -1)
  if oldest then redis.call('ZADD', q.heads, enqueued_at(oldest) or q.now, client)
  else redis.call('ZREM', q.heads, client) end
  return oldest
end

-- One round of the ring: an item from each of up to want clients, the next one standing at the right. Every list is looked at before any
-- write; one of another type refuses the claim in the first round, and in a later one ends it with what was got.
local function take_round(q, want, got)
  local clients = q.clients
  local turn = redis.call('LRANGE', clients, -want, -1)
  local lists, lengths, stop, back, heads, gone = {}, {}, 1, {}, {}, {}
  for i = #turn, 1, -1 do
    lists[i] = key_of(q, turn[i])
    lengths[i] = redis.pcall('LLEN', lists[i])
    if type(lengths[i]) == 'table' then
      if not q.took_round then error(lengths[i]) end
      q.stopped = true
      return
    end
  end
  q.took_round = true
  for i = #turn, 1, -1 do
    local client = turn[i]
    local envelope = redis.call('RPOP', lists[i])
    local next_one = lengths[i] > 1 and redis.call('LINDEX', lists[i], -1)
    local room = has_room(q, #(envelope or '') + #(next_one or '') + header_bytes(envelope or ''))
    local alone = envelope and is_alone(envelope)
    if alone and #got > 0 then
      redis.call('RPUSH', lists[i], envelope)
      q.stopped, stop = true, i + 1
      break
    end
    if envelope then
      got[#got + 1] = envelope
      if client ~= '-' then q.client_items, q.more_client_items = q.client_items - 1, (q.more_client_items or 0) - 1 end
    else q.lost_lists = q.lost_lists + 1 end
    if next_one then
      back[#back + 1] = client
      if client ~= '-' then heads[#heads + 1], heads[#heads + 2] = enqueued_at(next_one) or q.now, client end
    elseif client == '-' then q.main_in_ring = false; redis.call('HSET', q.stats, 'main_in_ring', '0')
    else gone[#gone + 1] = client end
    if alone or not room or (envelope and has_enough(q, envelope)) then q.stopped, stop = true, i; break end
  end
  redis.call('LTRIM', clients, 0, -(#turn - stop + 1) - 1)
  sliced(back, 1000, function(list, from, to) redis.call('LPUSH', clients, unpack(list, from, to)) end)
  sliced(heads, 1000, function(list, from, to) redis.call('ZADD', q.heads, unpack(list, from, to)) end)
  sliced(gone, 1000, function(list, from, to) redis.call('ZREM', q.heads, unpack(list, from, to)) end)
end

-- Refuses what take() refuses. Reads only.
local function check_lists(q, want)
  check_permissions(q.base, {'LINDEX'})
  local turn = redis.call('LRANGE', q.clients, -want, -1)
  if #turn > 0 then expect_zset(q.heads) end
  for _, client in ipairs({'-', unpack(turn)}) do expect_list(key_of(q, client)) end
end

local function take(q, want)
  local clients, got = q.clients, {}
  local ring, in_main = redis.call('LLEN', clients), redis.call('LLEN', q.main)
  q.adopted, q.is_weighed, q.lost_lists = 0, want > CALL_ITEMS / META_WEIGHT, 0
  if ring == 0 then got = take_list(q, '-', want)
  else
    expect_zset(q.heads)
    local only = redis.call('LINDEX', clients, -1)
    if in_main > 0 and not q.main_in_ring then
      check_lists(q, want)
      redis.call('LPUSH', clients, '-')
      redis.call('HSET', q.stats, 'main_in_ring', '1')
      q.main_in_ring, ring = true, ring + 1
    end
    if ring == 1 and only ~= '-' then
      got = take_list(q, only, want)
      if not settle_client(q, only, #got) then redis.call('LTRIM', clients, 1, 0) end
    else
      while #got < want and ring > 0 and not q.stopped do
        take_round(q, math.min(want - #got, ring), got)
        ring = redis.call('LLEN', clients)
        if q.lost_lists >= CALL_MOVES then q.stopped = true end  -- their entries are gone from the ring; the next call goes on
      end
    end
  end
  adopt(q, got)
  q.left = (ring == 0 and in_main - #got or redis.call('LLEN', q.main)) + q.client_items
  return got
end
