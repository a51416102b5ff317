-- Takes up to want items from main. Sets q.adopted (bare payloads given a header), q.past (items that it moved to failed), q.waiting (how many it delayed for their keys), q.left (what still waits, roughly) and q.stopped (there may be
-- more at once).
local PAST_DEADLINE = 'its deadline passed before it was started'
local function is_alone(envelope) return string.sub(envelope, 1, 4) == 'cq1!' end

-- The header of an item that has counters or a history takes as long to check as four items without. So a call claims at most 250 such items.
local META_WEIGHT = 4

-- Counts an item; whether the call has enough.
local function has_enough(q, envelope)
  q.weight = (q.weight or 0) + (string.find(envelope, '^cq1[ !][!-~]+ %d+ [!-~]+ {') and META_WEIGHT or 1)
  return q.weight >= CALL_ITEMS
end

-- Notes the sizes, and gives bare payloads a header, so that everything behind main knows one form only. Returns the items to hand out: all but q.past, those
-- whose deadline has passed, and those whose exclusive key is busy, which are delayed.
-- On demand: few items are bare payloads or have options.
local function adopt(q, got)
  local kept = {}
  q.adopted = q.adopted or 0
  for _, envelope in ipairs(got) do
    local plain, meta = is_plain(envelope), nil
    if not plain then _, _, _, meta = read_header(envelope) end
    local entry = meta and not is_past_deadline(meta, q.now) and key_to_wait_for(q, meta, #kept + 1)
    if meta and is_past_deadline(meta, q.now) then
      q.past = q.past or {}
      q.past[#q.past + 1] = envelope
    elseif entry then wait_for_key(q, entry, envelope)
    else
      if not (plain or meta) then
        q.adopted = q.adopted + 1
        envelope = format(parse(q, envelope, whole(q.first + #kept)))
      end
      kept[#kept + 1] = envelope
    end
    note_size(q, #envelope)
  end
  return kept
end

-- Moves q.past to failed, instead of handing them out. Where failed cannot be written they are handed out: they have left main already.
-- On demand: few items have a deadline that has passed.
local function fail_past(q, got)
  local is_ready = not refused_read(q.base)
  for _, size in ipairs({redis.pcall('ZCARD', q.failed), redis.pcall('HLEN', q.failed_items), redis.pcall('LLEN', q.removed)}) do
    is_ready = is_ready and type(size) == 'number'
  end
  if not is_ready then
    for _, envelope in ipairs(q.past) do
      local _, _, _, meta = read_header(envelope)
      local entry = key_to_wait_for(q, meta, #got + 1)
      if entry then wait_for_key(q, entry, envelope) else got[#got + 1] = envelope end
    end
    q.past = nil
    return
  end
  q.counts = {failed = #q.past, past_deadline = #q.past}
  local policy = {max_failed = setting(redis.call('HGET', q.config, 'failed_max_items'), nil, 1, 1000000000)}
  for _, envelope in ipairs(q.past) do
    local item = parse(q, envelope, '0')
    item.meta.given_up, item.meta.error, item.meta.detail = (item.meta.given_up or 0) + 1, PAST_DEADLINE, nil
    remember(item, q.now, 'deadline', PAST_DEADLINE, '')
    put_failed(q, policy, item)
  end
  if q.removals then write_removed(q) end
end

-- How many of these a call claims: an item that has crashed a worker alone, and no more headers than a call checks. The first `plain` are plain.
-- On demand: most items have neither counters nor a history.
local function claimable(q, got, plain)
  local bytes = 0
  q.weight = plain
  for i, envelope in ipairs(got) do
    bytes = bytes + #envelope
    if i > plain then
      if is_alone(envelope) then return math.max(i - 1, 1) end
      bytes = bytes + header_bytes(envelope)
      if bytes >= CALL_BYTES or has_enough(q, envelope) then return i end
    end
  end
  return #got
end

-- From one list alone.
-- On demand: not for a single item.
local function take_many(q, list, want)
  local got = read_oldest(q, list, 0, want)
  local plain = 0
  while got[plain + 1] and is_plain(got[plain + 1]) do plain = plain + 1 end
  if plain < #got then
    q.are_plain = false
    for i = #got, claimable(q, got, plain) + 1, -1 do got[i] = nil end
  end
  if #got > 0 then redis.call('LTRIM', list, 0, -(#got + 1)) end
  return got
end

-- Of the items of a client that are claimed while others of a lower priority wait, every eighth is one of those: of the next lower priority, or, by the same
-- rule among these, of the lowest. So no item waits forever. The hash `levels` has a count for each client.
local SHARE, CYCLE = 8, 64

-- The lists of a client that have items, the highest priority first, how many these have in all (left), and the count. Nil and the error if one is no list.
local function read_levels(q, client, count)
  local levels = {left = 0, count = setting(count, 0, 0, CYCLE)}
  for _, list in ipairs(lists_of(q, client)) do
    local length = redis.pcall('LLEN', list)
    if type(length) == 'table' then return nil, length end
    levels.left = levels.left + length
    if length > 0 then levels[#levels + 1] = {list = list, left = length} end
  end
  return levels
end

-- The list from which the next item is taken; nil if all are empty.
local function next_list(levels)
  local rank = 1
  if #levels > 1 then
    levels.count = (levels.count + 1) % CYCLE
    local turn = levels.count
    while turn % SHARE == 0 and rank < #levels do turn, rank = turn / SHARE, rank + 1 end
  end
  local chosen = levels[rank]
  if not chosen then return nil end
  chosen.left = chosen.left - 1
  if chosen.left == 0 then table.remove(levels, rank) end
  return chosen.list
end

-- From one client alone, in a queue that has levels.
-- On demand: few queues have levels.
local function take_by_priority(q, client, want)
  local key = q.base .. 'levels'
  local levels, wrong = read_levels(q, client, redis.call('HMGET', key, client)[1])
  if not levels then error(wrong) end
  local got = {}
  if #levels == 1 and want > 1 then return take_many(q, levels[1].list, want) end
  local count, before = levels.count, levels.count
  q.are_plain = false
  while #got < want do
    local list = next_list(levels)
    local envelope = list and redis.call('RPOP', list)
    if not envelope then break end
    local alone = is_alone(envelope)
    if alone and #got > 0 then
      redis.call('RPUSH', list, envelope)
      break
    end
    got[#got + 1], count = envelope, levels.count
    local room = has_room(q, #envelope + header_bytes(envelope))
    if has_enough(q, envelope) or alone or not room then break end
  end
  if count ~= before then redis.call('HSET', key, client, whole(count)) end
  return got
end

local function take_list(q, client, want)
  if q.seen.levels then return take_by_priority(q, client, want) end
  local list = key_of(q, client)
  if want > 1 then return take_many(q, list, want) end
  local envelope = redis.call('RPOP', list)
  if not envelope then return {} end
  q.are_plain = is_plain(envelope)
  return {envelope}
end

-- After count items left a client's list: its place in the ring and the age of its oldest item.
local function settle_client(q, client, count)
  q.more_client_items = (q.more_client_items or 0) - count
  q.client_items = q.client_items - count
  local oldest = oldest_of(q, client)
  if oldest then redis.call('ZADD', q.heads, enqueued_at(oldest) or whole(q.now), client)
  else forget(q, {client}) end
  return oldest
end

-- The list from which a client's next item is taken, how many items it has in all (or an error), and its count afterwards if that changes.
-- On demand: few queues have levels.
local function choose_list(q, client, count)
  local levels, wrong = read_levels(q, client, count)
  if not levels then return key_of(q, client), wrong end
  local before, length = levels.count, levels.left
  return next_list(levels) or key_of(q, client), length, levels.count ~= before and whole(levels.count)
end

-- One round of the ring: an item from each of up to want clients, the next one standing at the right. Every list is looked at before any
-- write; one of another type refuses the claim in the first round, and in a later one ends it with what was got.
local function take_round(q, want, got)
  local clients = q.clients
  local turn = redis.call('LRANGE', clients, whole(-want), -1)
  local lists, lengths, stop, back, heads, gone, counted = {}, {}, 1, {}, {}, {}, {}
  local counts = q.seen.levels and redis.call('HMGET', q.base .. 'levels', unpack(turn))
  for i = #turn, 1, -1 do
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
  for i = #turn, 1, -1 do
    local client = turn[i]
    local envelope = redis.call('RPOP', lists[i])
    local next_one = lengths[i] > 1 and oldest_of(q, client)
    local room = has_room(q, #(envelope or '') + header_bytes(envelope or ''))
    local alone = envelope and is_alone(envelope)
    if alone and #got > 0 then
      redis.call('RPUSH', lists[i], envelope)
      q.stopped, stop = true, i + 1
      break
    end
    if envelope then
      got[#got + 1] = envelope
      if counts and counts[i] then counted[#counted + 1], counted[#counted + 2] = client, counts[i] end
      if client ~= '-' then q.client_items, q.more_client_items = q.client_items - 1, (q.more_client_items or 0) - 1 end
    else q.lost_lists = q.lost_lists + 1 end
    if next_one then
      back[#back + 1] = client
      if client ~= '-' then heads[#heads + 1], heads[#heads + 2] = enqueued_at(next_one) or q.now, client end
    elseif client == '-' then q.main_in_ring = false; redis.call('HSET', q.stats, 'main_in_ring', '0')
    else gone[#gone + 1] = client end
    if alone or not room or (envelope and has_enough(q, envelope)) then q.stopped, stop = true, i; break end
  end
  redis.call('LTRIM', clients, 0, whole(-(#turn - stop + 1) - 1))
  sliced(back, 1000, function(list, from, to) redis.call('LPUSH', clients, unpack(list, from, to)) end)
  sliced(heads, 1000, function(list, from, to) redis.call('ZADD', q.heads, unpack(list, from, to)) end)
  if #counted > 0 then redis.call('HSET', q.base .. 'levels', unpack(counted)) end
  if #gone > 0 then forget(q, gone) end
end

-- Refuses what take() refuses. Reads only.
local function check_lists(q, want)
  check_permission(q.base, 'LINDEX', '0')
  local turn = redis.call('LRANGE', q.clients, whole(-want), -1)
  if #turn > 0 then expect_zset(q.heads) end
  for _, client in ipairs({'-', unpack(turn)}) do
    for _, list in ipairs(lists_of(q, client)) do expect_list(list) end
  end
  if q.seen.levels then expect_hash(q.base .. 'levels') end
end

-- An item of a client costs three times as long as one of a list that is read alone: 1,000 of as many clients took 25 ms.
local RING_ITEMS = 500

-- Takes items of the clients of the ring; in_main: how many there are without a client. Returns them, and how many of those are left.
-- On demand: a queue need not have clients.
local function take_in_turns(q, want, ring, in_main)
  local clients, got = q.clients, {}
  q.lost_lists = q.lost_lists or 0  -- a call may take several times
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
    return got, in_main
  end
  q.are_plain, want = false, math.min(want, RING_ITEMS)
  while #got < want and ring > 0 and not q.stopped do
    take_round(q, math.min(want - #got, ring), got)
    ring = redis.call('LLEN', clients)
    if q.lost_lists >= CALL_MOVES then q.stopped = true end  -- their entries are gone from the ring; the next call goes on
  end
  return got, count_in(q, '-')
end

local function take(q, want)
  local ring, in_main, got = redis.call('LLEN', q.clients), redis.call('LLEN', q.main), nil
  if q.seen.levels then in_main = in_main + in_levels(q, '-') end
  q.are_plain = true
  if ring == 0 then
    got = in_main > 0 and take_list(q, '-', want) or {}
    in_main = in_main - #got
  else got, in_main = take_in_turns(q, want, ring, in_main) end
  if not q.are_plain then
    got = adopt(q, got)
    if q.past then fail_past(q, got) end
  else
    for i = 1, #got do
      local size = #got[i]
      if size > q.largest then q.largest, q.has_grown = size, true end
    end
  end
  q.left = in_main + q.client_items
  return got
end
