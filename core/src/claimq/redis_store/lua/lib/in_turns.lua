-- Takes items of clients in their turns (lib/take.lua).

-- Takes items of the only client that has a turn.
local function take_of_one(q, client, want)
  -- include oldest forget settle_client shares reserve slots turns
  local park, got, oldest = q.park, {}, true
  if park then
    park.look({client})
    want = math.min(want, park.room(client))
  end
  local tag = q.turn and tonumber(redis.call('ZSCORE', q.clients, client))
  if q.claimer and tag then
    find_room(q, 1)
    read_shares(q, {client})
    local room = room_of(q, q.shares[client], 0, 0)
    if room < want then want, q.is_kept = room, true end
  end
  if want > 0 then
    got = take_list(q, client, want)
    local holds_turn = #got == 0 and q.costs and (q.costs.stops or park and park.needs[client])
    if not holds_turn then
      oldest = settle_client(q, client, #got)
      if tag then take_alone(q, client, tag, #got, oldest) end
    elseif tag then q.turn.at = math.max(q.turn.at, tag) end
  end
  if park then
    park.count(client, #got)
    if oldest and (park.room(client) < 1 or park.needs[client]) then
      redis.call('ZADD', q.clients, park.score(client), client)
    end
  end
  return got
end

-- No limit per client holds: all clients have turns. Returns how many have them now.
local function unpark_all(q)
  -- include tags entry_tags parked unpark
  unpark(q, 0, 2 * BAND)
  return turns(q)
end

-- An item of a client costs three times as long as one of a list that is read alone: 1,000 of as many clients
-- took 25 ms.
local RING_ITEMS = 500

local function take_in_turns(q, want, ring, in_main)
  -- include tags entry_tags oldest forget levels_in_turn shares reserve slots turns plan ring
  local clients, got = q.clients, {}
  q.lost_lists = q.lost_lists or 0  -- a call may take several times
  expect_zset(q.heads)
  local only = read_last(q)
  if q.park then ring = q.park.begin() elseif q.has_parked then ring = unpark_all(q) end
  if ring == 0 and not (q.claimer and q.turns and in_main > 0) then
    got = in_main > 0 and not q.stopped and take_list(q, '-', want) or got
    return got, in_main - #got
  end
  if ring == 1 and q.has_parked then only = redis.call('ZRANGE', clients, '0', '0')[1] end
  if in_main > 0 and not redis.call('ZSCORE', clients, '-') then
    check_lists(q, want)
    redis.call('ZADD', clients, unpack(entry_tags(q, {'-'})))
    if ring == 0 then only = '-' end
    ring, q.has_written = ring + 1, true
  end
  if q.fairness ~= 'count' and (ring > 1 or q.turns) then turn_of(q) end
  if ring == 1 and only ~= '-' then
    return take_of_one(q, only, want), in_main
  end
  want = math.min(want, RING_ITEMS)
  if q.claimer and q.turn then find_room(q, ring) end
  local before = -1
  while #got < want and ring > 0 and not (q.stopped or q.is_kept and #got == before
    or q.costs and q.costs.stops) do
    before = #got
    if not (q.turn and take_planned(q, want - #got, ring, got)) then
      q.are_plain = false
      take_round(q, math.min(want - #got, ring), got)
    end
    if #got < want then ring = turns(q) end
    -- these have no turn any more, or a later one; the next call goes on
    if q.lost_lists >= CALL_MOVES or q.park and q.park.parked >= CALL_MOVES
      or q.turn and q.turn.corrected >= CALL_MOVES then
      q.stopped = true
    end
  end
  return got, in_main > 0 and count_in(q, '-') or 0
end
