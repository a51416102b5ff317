-- Takes plain items of several clients by processing time. It plans all turns before it takes an item, so it
-- cuts each list once. The plan reads two items of each client: enough where a client has one turn. A client
-- has as many turns as its limits let it start items; then it is parked (lib/park.lua).

-- Puts a client behind those that come before it. A new one is often the first, one after its turn the last.
local function line_up(line, entry)
  local at, first = line.last, line.first
  if at >= first and line[first].position > entry.position then
    line.first, line[first - 1] = first - 1, entry
    return
  end
  while at >= first and line[at].position > entry.position do
    line[at + 1], at = line[at], at - 1
  end
  line[at + 1], line.last = entry, line.last + 1
end

-- The turns in order, up to `want`, the clients that were looked at, and the tag of the last turn; nil if a
-- client has no list, or has the items without a client, which may be bare payloads. page: clients and tags;
-- is_cut: the ring has more.
local function plan_turns(q, want, page, is_cut, started)
  local names, tags, line, turns, entries = {}, {}, {first = 1, last = 0}, {}, {}
  for i = 1, #page / 2 do names[i], tags[i] = page[2 * i - 1], tonumber(page[2 * i]) end
  read_shares(q, names)
  if q.park then q.park.look(names) end
  local last, at = tags[#tags], q.turn.at
  while #turns < want do
    local tag, first = tags[#entries + 1], line[line.first]
    if tag and tag < PARKED and not (first and first.position < tag) then
      local name = names[#entries + 1]
      local share = begin_turn(q, name, tag)
      local most = q.park and q.park.room(name) or math.huge
      entries[#entries + 1] = {name = name, share = share, position = share.position, tag = tag, count = 0,
        most = most}
      if most >= 1 then line_up(line, entries[#entries]) end
    elseif first and not (is_cut and first.position > last) then
      line.first = line.first + 1
      local is_kept = q.room and room_of(q, first.share, started + #turns, first.count) < 1
      if is_kept then q.is_kept = true
      elseif first.count == 0 then
        first.list = key_of(q, first.name)
        first.items = redis.pcall('LRANGE', first.list, '-2', '-1')  -- an error has none
        first.left = #first.items
        if first.left == 0 or first.name == '-' then return nil end
      elseif first.count == 1 then first.left = redis.call('LLEN', first.list) end
      if not is_kept then
        turns[#turns + 1], first.count = first, first.count + 1
        at = math.max(at, math.floor(first.position))
        first.position = first.position + first.share.charge
        if first.count < math.min(first.left, first.most) then line_up(line, first) end
      end
    else break end
  end
  return turns, entries, at
end

-- Reads the items of the turns; false if one is not plain.
local function read_planned(entries)
  for _, entry in ipairs(entries) do
    if entry.count > 0 then
      if entry.count > 1 then
        entry.items = redis.call('LRANGE', entry.list, whole(-entry.count - 1), '-1')
      end
      local items = entry.items
      for i = #items, #items - entry.count + 1, -1 do
        if not is_plain(items[i]) then return false end
      end
    end
  end
  return true
end

-- Whether it took items, or corrected tags: then the call goes on.
local function take_planned(q, want, ring, got)
  if q.has_levels or q.costs or 3 * want * q.largest > CALL_BYTES then return false end
  local page = redis.call('ZRANGE', q.clients, '0', whole(last_turn(q, want, #got)), 'WITHSCORES')
  local turns, entries, at = plan_turns(q, want, page, ring > #page / 2, #got)
  if not turns or not read_planned(entries) then return false end
  local again, heads, gone = {}, {}, {}
  for _, entry in ipairs(entries) do
    local share, count = entry.share, entry.count
    share.count, share.position = share.count + count, entry.position
    if count > 0 then
      redis.call('LTRIM', entry.list, '0', whole(-count - 1))
      if q.park then q.park.count(entry.name, count) end
    end
    local next_one = entry.left and entry.left > count and entry.items[1]
    local is_parked = entry.most - count < 1
    if count > 0 and not next_one then
      set_tag(share)
      gone[#gone + 1] = entry.name
      note_quiet(q, share)
    elseif count > 0 or is_parked or share.position > entry.tag then
      local tag = set_tag(share)
      again[#again + 1], again[#again + 2] = is_parked and q.park.score(entry.name) or whole(tag), entry.name
      if count > 0 then
        heads[#heads + 1], heads[#heads + 2] = enqueued_at(next_one) or whole(q.now), entry.name
      elseif not is_parked then q.turn.corrected = q.turn.corrected + 1 end
    end
  end
  local order, before = q.order or {}, #got
  for i, entry in ipairs(turns) do
    local items = entry.items
    got[before + i], order[#order + 1] = items[#items], entry.name
    items[#items] = nil
  end
  q.order, q.took_round, q.turn.at = order, true, at
  q.client_items, q.more_client_items = q.client_items - #turns, (q.more_client_items or 0) - #turns
  if #again > 0 then redis.call('ZADD', q.clients, unpack(again)) end
  if #heads > 0 then redis.call('ZADD', q.heads, unpack(heads)) end
  if #gone > 0 then forget(q, gone) end
  return true
end
