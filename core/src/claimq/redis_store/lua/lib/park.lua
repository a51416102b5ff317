-- Limits and pauses of clients. A client that is paused or at its limit is parked: its score in the ring is
-- PARKED, and a band, and the instant (ms) when it may start an item again. A claim that begins gives the
-- clients whose instant has come their turns back, so no claim looks at the items of those that wait. One
-- whose turn comes back for another reason is parked again in its turn. The hash `starts` has the levels of
-- the rates of each client, as stats has those of the queue (lib/start_limits.lua). An item without a client
-- counts for no limit per client.
--
-- For bounds on items in progress of each client, or on what they or all items in progress cost, the hash
-- `in_progress` has sums, while such a bound holds (lib/in_progress.lua). At a bound a client is parked for
-- FAR_MS, and gets its turn back when one of its items ends.
--
-- The field `limits` of stats has between "|" and the end of a line the band (0 or 1) in which clients are
-- parked, "+" while the other one may have some, the number of the first claim under the limits by which they
-- were parked, and these limits. Where other limits hold, clients are parked in the other band from then on,
-- and those of the band before get their turns back. Items of earlier claims give no start back: it may not
-- have counted. "=WORKER" is there while the items in progress are counted, for a new limit or again: those
-- of the workers up to this name are. No item starts until all are.
local FAR_MS = 30000

-- The limits per client among those in force, as take() asks them.
local function new_park(q, text, worker)
  -- include tags entry_tags parked unpark client_of cost_of wait_of limits_per bands in_progress cost_bounds
  -- include pauses return_turns
  local rates = limits_of(text, 'client')
  local key = q.base .. 'starts'
  -- clients: name -> its record, for those that were looked at
  local park, clients, by_cost = {needs = {}, parked = 0}, {}, {}
  for i = 1, #rates do
    rates[i].place = 4 * i - 4
    if rates[i].is_by_cost then by_cost[#by_cost + 1], rates[i].spent = rates[i], {} end
  end
  text = limits_per(text, 'client')
  local sums = new_sums(text)
  local most, most_cost = sums.most, sums.most_cost
  park.has_costs, park.is_counted = #by_cost > 0 or most_cost, most or most_cost or sums.queue_cost
  local band, moving, counting, since, before = read_bands(q)
  band = tonumber(band) or 0
  park.bands = function() return bands_of(q) end
  local function write_bands()
    local limits = table.concat({string.sub(q.limits or '0', 1, 1), '|', band, moving, counting or '', ' ',
      since, ' ', before, '\n', string.sub(q.limits or '', 2 + #bands_of(q))})
    if limits == q.limits then return end
    q.limits, q.has_written = limits, true
    redis.call('HSET', q.stats, 'limits', q.limits)
  end
  local counted = before == text and sums or new_sums(before or '')  -- the bounds that starts count for
  local function has_less(bounds, others)
    return others.most and not bounds.most or others.most_cost and not bounds.most_cost
      or others.queue_cost and not bounds.queue_cost
  end
  if has_less(sums, counted) then
    -- No start is counted for it from now on: all are counted for the next bound. No limits have this text,
    -- so clients that are parked by the bound get their turns back.
    before, counting, counted = '-', '', new_sums('')
    write_bands()
  end
  local in_progress = q.base .. 'in_progress'
  local function is_counted(name) return counting == '' or name <= string.sub(counting or '=', 2) end

  -- Counts the items that are in progress, of as many workers as a call may read.
  local function count_workers()
    local last, names, workers = string.sub(counting, 2), {}, new_sums(text)
    if last == '' then redis.call('DEL', in_progress) end
    for _, name in ipairs(redis.call('ZRANGE', q.workers, 0, -1)) do
      if name > last then names[#names + 1] = name end
    end
    table.sort(names)
    for _, name in ipairs(names) do
      if not has_room(q, 0) then break end
      local claims = redis.call('HGETALL', q.base .. 'busy:' .. name)
      for i = 2, #claims, 2 do
        workers.add(claims[i])
        has_room(q, #claims[i] + 1000)
      end
      last = name
    end
    for field, sum in pairs(workers.fields) do add_in_progress(q, field, sum) end
    counting = last ~= (names[#names] or last) and '=' .. last or ''
  end

  -- Gives clients their turns back. Returns how many clients have turns.
  park.begin = function()
    local function has_more()
      local other = (1 - band) * BAND
      return q.has_parked and unpark(q, other, other + LAST_MS) == UNPARKED
    end
    local is_moving = moving == '+' and has_more()
    if text ~= before and not is_moving then
      if has_less(counted, sums) then counting = '=' end
      band, since, before, counting = 1 - band, whole(q.first), text, park.is_counted and counting or ''
      counted = sums
      is_moving = has_more()
    end
    if string.sub(counting or '', 1, 1) == '=' then count_workers() end
    moving = is_moving and '+' or ''
    write_bands()
    if park.is_counted and (before ~= text or counting ~= '') then
      q.stopped = true
      return 0
    end
    if q.has_parked then unpark(q, band * BAND, band * BAND + q.now) end
    return turns(q)
  end

  -- The record of a client: the levels of its rates, four numbers each, and how many items it may start
  -- (room), and has started. It is fresh without levels. A pause ends at `ends`.
  local function new_client(levels, busy, cost, ends)
    local client = {0, 0, 0, 0, room = math.huge, started = 0, is_fresh = true, busy = busy}
    client.cost, client.ends = cost, ends
    if most then
      client.busy = setting(busy, 0, 0, LAST_NUMBER)
      client.room = most - client.busy
    end
    for i = 1, #rates do
      local rate = rates[i]
      local place = rate.place
      read_level(q, rate, levels)
      client[place + 1], client[place + 2], client[place + 3], client[place + 4] =
        rate.level, rate.at, rate.low, rate.from
      if rate.level > 0 then client.is_fresh = false end
      if not rate.is_by_cost then client.room = math.min(client.room, free_of(rate)) end
    end
    if ends then client.room = 0 end
    return client
  end

  local function level_of(rate, client)
    local place = rate.place
    rate.level, rate.at, rate.low, rate.from = client[place + 1], client[place + 2], client[place + 3],
      client[place + 4]
  end

  -- Reads the records of these clients.
  park.look = function(turn)
    local names = {}
    for i = 1, #turn do
      if turn[i] ~= '-' and not clients[turn[i]] then names[#names + 1] = turn[i] end
    end
    if #names == 0 then return end
    local stored = #rates > 0 and redis.call('HMGET', key, unpack(names)) or {}
    local busy = most and redis.call('HMGET', in_progress, unpack(names)) or {}
    local costs = most_cost and costs_in_progress(q, names) or {}
    local ends = q.pauses and paused_clients(q, names) or {}
    for i, name in ipairs(names) do
      clients[name] = new_client(stored[i], busy[i], costs[i], ends[name])
    end
  end

  -- How many units of a rate a client has started.
  local function started_of(rate, name)
    return rate.spent and (rate.spent[name] or 0) or clients[name].started
  end

  -- How many items a client may start now, if none costs more than 1.
  park.room = function(name)
    local client = clients[name]
    if not client then return math.huge end
    local room = client.room
    for i = 1, #by_cost do
      level_of(by_cost[i], client)
      room = math.min(room, free_of(by_cost[i], started_of(by_cost[i], name)))
    end
    return client.cost and math.min(room, most_cost - client.cost) or room
  end

  -- Whether a client may start an item of this cost. If not, it is parked until it may.
  park.fits = function(name, cost)
    local client = clients[name]
    if not client then return true end
    for i = 1, #by_cost do
      level_of(by_cost[i], client)
      if wait_of(by_cost[i], started_of(by_cost[i], name), cost) then park.needs[name] = cost end
    end
    if client.cost and not fits_beside(client.cost, cost, most_cost) then park.needs[name] = cost end
    return not park.needs[name]
  end

  -- Counts the cost of an item that starts (more: 1), or does not after all (-1).
  park.spend = function(name, cost, more)
    local client = clients[name]
    if not client then return end
    for i = 1, #by_cost do
      local rate = by_cost[i]
      rate.spent[name] = started_of(rate, name) + more * units_of(rate, cost)
    end
    if client.cost then client.cost = client.cost + more * cost end
  end

  park.count = function(name, started)
    local client = clients[name]
    if client then client.room, client.started = client.room - started, client.started + started end
  end

  -- The score of a client that may start no item now.
  park.score = function(name)
    local client = clients[name]
    local is_full = most and most - client.busy - client.started < 1
      or not fits_beside(client.cost or 0, park.needs[name] or 1, most_cost)
    local at = is_full and q.now + FAR_MS or q.now
    at = math.max(at, client.ends or 0)
    for i = 1, #rates do
      level_of(rates[i], client)
      at = math.max(at, wait_of(rates[i], started_of(rates[i], name), park.needs[name] or 1) or 0)
    end
    q.has_parked, park.parked = true, park.parked + 1
    return whole(PARKED + band * BAND + at)
  end

  -- Those of the clients whose turn it is that may start an item. The others go to `again`, with scores.
  park.those_with_room = function(clients, again)
    park.look(clients)
    local turn = {}
    for _, name in ipairs(clients) do
      if park.room(name) >= 1 then turn[#turn + 1] = name
      else again[#again + 1], again[#again + 2] = park.score(name), name end
    end
    return turn
  end

  -- Takes back the starts of items that are not handed out: of `got` those that are not in `kept`.
  park.uncount = function(got, kept)
    local counts, more_room = {}, {}
    local function count_each(envelopes, more)
      for _, envelope in ipairs(envelopes) do
        local name = client_of(envelope)
        counts[name] = (counts[name] or 0) + more
      end
    end
    count_each(got, -1)
    count_each(kept, 1)
    for name, more in pairs(counts) do
      if more < 0 and clients[name] then
        park.count(name, more)
        if park.room(name) >= 1 then more_room[#more_room + 1] = name end
      end
    end
    return_turns(q, more_room)
  end

  -- Writes the starts that were counted.
  park.write = function()
    local words, fresh, busy, counts, first = {}, {}, {}, is_counted(worker), q.first
    for name, client in pairs(clients) do
      local started = client.started
      if started > 0 and counted.most and counts then
        busy[#busy + 1], busy[#busy + 2] = name, whole(client.busy + started)
      end
      if started > 0 and counted.most_cost and client.cost and counts then
        busy[#busy + 1], busy[#busy + 2] = 'cost ' .. name, whole(client.cost)
      end
      if started > 0 and #rates > 0 then
        local levels = client.is_fresh and not park.has_costs and fresh[started]
        if not levels then
          levels = ''
          for i = 1, #rates do
            level_of(rates[i], client)
            add_starts(rates[i], started_of(rates[i], name), first)
            levels = levels .. level_text(rates[i])
          end
          if client.is_fresh then fresh[started] = levels end
        end
        words[#words + 1], words[#words + 2] = name, levels
      end
    end
    sliced(words, function(...) redis.call('HSET', key, ...) end)
    if counted.queue_cost and counts and q.costs.sum > 0 then add_in_progress(q, 'cost -', q.costs.sum) end
    sliced(busy, function(...) redis.call('HSET', in_progress, ...) end)
  end

  return park
end
