-- Takes items of several clients.

-- Returns the list from which a client's next item is taken, the number of items in all its lists (or an
-- error), and its count after the item if that changes.
local function choose_list(q, client, count)
  local levels, wrong = read_levels(q, client, count)
  if not levels then return key_of(q, client), wrong end
  local before, length = levels.count, levels.left
  return next_list(levels) or key_of(q, client), length, levels.count ~= before and whole(levels.count)
end

-- Takes an item from each of up to `want` clients: one round of the ring, or a part of one. It reads the
-- length of every list before its first write. A list of a wrong type raises in the first round. In a later
-- round the claim returns the items that it has.
local function take_round(q, want, got)
  local clients = q.clients
  local again, turn = {}, nil
  if q.turn then
    local page = redis.call('ZRANGE', clients, '0', whole(last_turn(q, want, #got)), 'WITHSCORES')
    turn = those_in_turn(q, page, want, again, #got)
  else turn = redis.call('ZRANGE', clients, '0', whole(want - 1)) end
  if q.park then turn = q.park.those_with_room(turn, again) end
  local lists, lengths, heads, gone, counted = {}, {}, {}, {}, {}
  local counts = q.has_levels and #turn > 0 and redis.call('HMGET', q.base .. 'levels', unpack(turn))
  for i = 1, #turn do
    if counts then lists[i], lengths[i], counts[i] = choose_list(q, turn[i], counts[i])
    else
      lists[i] = key_of(q, turn[i])
      lengths[i] = redis.pcall('LLEN', lists[i])
    end
    if type(lengths[i]) == 'table' then
      if not q.took_round then error(lengths[i]) end
      q.stopped = true
      return
    end
  end
  q.took_round = true
  for i = 1, #turn do
    local client = turn[i]
    local first = q.costs and redis.call('LINDEX', lists[i], '-1')
    if first and #got > 0 and is_alone(first) then q.stopped = true; break end
    local fits = not first or q.costs.take(client, first)
    if not fits and q.costs.stops then break end
    local envelope = fits and redis.call('RPOP', lists[i])
    local next_one = (not fits or lengths[i] > 1) and oldest_of(q, client)
    local of_header = header_bytes(envelope or '')
    local room = has_room(q, #(envelope or '') + of_header)
    local alone = envelope and is_alone(envelope)
    if alone and #got > 0 then
      redis.call('RPUSH', lists[i], envelope)
      q.stopped = true
      break
    end
    if envelope then
      got[#got + 1] = envelope
      if q.turn then take_turn(q, client, 1) end
      if counts and counts[i] then counted[#counted + 1], counted[#counted + 2] = client, counts[i] end
      if client ~= '-' then
        q.client_items, q.more_client_items = q.client_items - 1, (q.more_client_items or 0) - 1
      end
      if q.park then q.park.count(client, 1) end
    elseif fits then q.lost_lists = q.lost_lists + 1 end
    if next_one then
      local tag = q.turn and q.shares[client].tag or not q.turn and next_tag(q)
      local is_parked = not fits or q.park and q.park.room(client) < 1
      again[#again + 1], again[#again + 2] = is_parked and q.park.score(client) or whole(tag), client
      if client ~= '-' then heads[#heads + 1], heads[#heads + 2] = enqueued_at(next_one) or q.now, client end
    else
      if envelope and q.turn then note_quiet(q, q.shares[client]) end
      if client == '-' then redis.call('ZREM', clients, client) else gone[#gone + 1] = client end
    end
    if alone or not room or (envelope and has_enough(q, of_header)) then q.stopped = true; break end
  end
  sliced(again, function(...) redis.call('ZADD', clients, ...) end)
  sliced(heads, function(...) redis.call('ZADD', q.heads, ...) end)
  if #counted > 0 then redis.call('HSET', q.base .. 'levels', unpack(counted)) end
  if #gone > 0 then forget(q, gone) end
end
