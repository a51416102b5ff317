-- The turns of a claim by processing time (lib/shares.lua).

-- Begins the turn of a client with this tag in the ring: one that has entered since its last turn has had no
-- less time than the tag says.
local function begin_turn(q, name, tag)
  local share = q.shares[name]
  local charge = charge_of(q, share)
  if not share.base then share.base, share.tag = tag - share.count * charge, tag
  elseif q.reserve and share.tag ~= tag then note_quiet(q, share) end
  share.charge, share.position = charge, share.base + share.count * charge
  if share.tag ~= tag and share.position < tag then
    share.base, share.position = share.base + tag - share.position, tag
  end
  return share
end

local function set_tag(share)
  share.tag, share.is_changed = math.max(0, math.min(math.floor(share.position), PARKED - 1)), true
  return share.tag
end

-- Notes that a client takes items in its turn.
local function take_turn(q, name, count)
  local share, order = q.shares[name], q.order or {}
  share.count, share.position = share.count + count, share.position + count * share.charge
  q.order = order
  for i = #order + 1, #order + count do order[i] = name end
  set_tag(share)
end

-- The same for a client that has the ring for itself; oldest: the item that it still has, if any.
local function take_alone(q, name, tag, count, oldest)
  read_shares(q, {name})
  begin_turn(q, name, tag)
  take_turn(q, name, count)
  q.turn.at = math.max(q.turn.at, tag)
  if oldest then redis.call('ZADD', q.clients, whole(q.shares[name].tag), name)
  else note_quiet(q, q.shares[name]) end
end

-- The clients of a page of the ring (names and tags) that take an item each in this round. One that owes more
-- than an item's time, since its last items took longer than the mean, pays now: it goes to `again` with its
-- new tag. A round ends before a client that comes after the next turn of another one.
local function those_in_turn(q, page, want, again, started)
  local names, turn, lowest = {}, {}, math.huge
  for i = 1, #page, 2 do names[#names + 1] = page[i] end
  read_shares(q, names)
  for i, name in ipairs(names) do
    local tag = tonumber(page[2 * i])
    if #turn == want or tag > lowest or tag >= PARKED then break end
    local share = begin_turn(q, name, tag)
    local charge, position = share.charge, share.position
    if position > tag + charge and #names > 1 then
      again[#again + 1], again[#again + 2] = whole(set_tag(share)), name
      lowest, q.turn.corrected = math.min(lowest, share.tag), q.turn.corrected + 1
    elseif q.room and room_of(q, share, started + #turn, 0) < 1 then q.is_kept = true
    else
      turn[#turn + 1] = name
      lowest, q.turn.at = math.min(lowest, position + charge), math.max(q.turn.at, tag)
    end
  end
  return turn
end
