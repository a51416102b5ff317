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
-- Behind "|" the field `limits` of stats has the band (0 or 1) in which clients are parked, "+" while the
-- other one may have some, the number of the first claim under the limits by which they were parked, and
-- these limits. Where other limits hold, clients are parked in the other band from then on, and those of the
-- band before get their turns back. Items of earlier claims give no start back: it may not have counted.
-- "=WORKER" is there while the items in progress are counted, for a new limit or again: those of the workers
-- up to this name are. No item starts until all are.
local FAR_MS = 30000

-- The limits per client among those in force, as take() asks them.
local function new_park(q, text, worker)
  -- include tags entry_tags parked unpark client_of cost_of limits_per limits_tail in_progress cost_bounds
  -- include pauses return_turns
  local rates = limits_of(text, 'client')
  local key = q.base .. 'starts'
  local park = {rooms = {}, ends = {}, started = {}, fresh = {}, busy = {}, costs = {}, needs = {},
    parked = 0}
  local by_cost = {}
  for i = 1, #rates do
    rates[i].levels, rates[i].lows, rates[i].froms, rates[i].ats = {}, {}, {}, {}
    if rates[i].is_by_cost then by_cost[#by_cost + 1], rates[i].spent = rates[i], {} end
  end
  text = limits_per(text, 'client')
  local sums = new_sums(text)
  local most, most_cost = sums.most, sums.most_cost
  park.has_costs, park.is_counted = #by_cost > 0 or most_cost, most or most_cost or sums.queue_cost
  local band, moving, counting, since, before = read_tail(q)
  band = tonumber(band) or 0
  local function write_tail()
    local limits = string.match(q.limits or '0', '^[^|]*')
      .. table.concat({'|', band, moving, counting or '', ' ', since, ' ', before})
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
    write_tail()
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
    write_tail()
    if park.is_counted and (before ~= text or counting ~= '') then
      q.stopped = true
      return 0
    end
    if q.has_parked then unpark(q, band * BAND, band * BAND + q.now) end
    return turns(q)
  end

  -- Notes what a client may start, and the levels of its rates: a table for each client would cost too much.
  local function read(name, levels, busy, cost, ends)
    local room, is_fresh = math.huge, true
    if most then
      park.busy[name] = setting(busy, 0, 0, LAST_NUMBER)
      room = most - park.busy[name]
    end
    park.costs[name] = cost
    for i = 1, #rates do
      local rate = rates[i]
      read_level(q, rate, levels)
      if rate.level > 0 then
        is_fresh = false
        rate.levels[name], rate.lows[name], rate.froms[name] = rate.level, rate.low, rate.from
        if rate.at ~= q.now then rate.ats[name] = rate.at end
      end
      if not rate.is_by_cost then room = math.min(room, free_of(rate)) end
    end
    park.rooms[name], park.fresh[name], park.ends[name] = ends and 0 or room, is_fresh, ends
  end

  local function level_of(rate, name)
    rate.level, rate.low, rate.from = rate.levels[name] or 0, rate.lows[name] or 0, rate.froms[name] or '0'
    rate.at = rate.ats[name] or q.now
  end

  -- Reads the levels of these clients.
  park.look = function(clients)
    local names = {}
    for _, name in ipairs(clients) do
      if name ~= '-' and not park.rooms[name] then names[#names + 1] = name end
    end
    if #names == 0 then return end
    local stored = #rates > 0 and redis.call('HMGET', key, unpack(names)) or {}
    local busy = most and redis.call('HMGET', in_progress, unpack(names)) or {}
    local costs = most_cost and costs_in_progress(q, names) or {}
    local ends = q.pauses and paused_clients(q, names) or {}
    for i, name in ipairs(names) do read(name, stored[i], busy[i], costs[i], ends[name]) end
  end

  -- How many units of a rate a client has started.
  local function started_of(rate, name)
    return (rate.spent or park.started)[name] or 0
  end

  -- How many items a client may start now, if none costs more than 1.
  park.room = function(name)
    local room = park.rooms[name] or math.huge
    for i = 1, park.rooms[name] and #by_cost or 0 do
      level_of(by_cost[i], name)
      room = math.min(room, free_of(by_cost[i], started_of(by_cost[i], name)))
    end
    return park.costs[name] and math.min(room, most_cost - park.costs[name]) or room
  end

  -- Whether a client may start an item of this cost. If not, it is parked until it may.
  park.fits = function(name, cost)
    for i = 1, park.rooms[name] and #by_cost or 0 do
      level_of(by_cost[i], name)
      if wait_of(by_cost[i], started_of(by_cost[i], name), cost) then park.needs[name] = cost end
    end
    if park.costs[name] and not fits_beside(park.costs[name], cost, most_cost) then
      park.needs[name] = cost
    end
    return not park.needs[name]
  end

  -- Counts the cost of an item that starts (more: 1), or does not after all (-1).
  park.spend = function(name, cost, more)
    for i = 1, park.rooms[name] and #by_cost or 0 do
      local rate = by_cost[i]
      rate.spent[name] = started_of(rate, name) + more * units_of(rate, cost)
    end
    if park.costs[name] then park.costs[name] = park.costs[name] + more * cost end
  end

  park.count = function(name, started)
    if park.rooms[name] then
      park.rooms[name] = park.rooms[name] - started
      park.started[name] = (park.started[name] or 0) + started
    end
  end

  -- The score of a client that may start no item now.
  park.score = function(name)
    local is_full = most and most - park.busy[name] - (park.started[name] or 0) < 1
      or not fits_beside(park.costs[name] or 0, park.needs[name] or 1, most_cost)
    local at = is_full and q.now + FAR_MS or q.now
    at = math.max(at, park.ends[name] or 0)
    for i = 1, #rates do
      level_of(rates[i], name)
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
      if more < 0 and park.rooms[name] then
        park.count(name, more)
        if park.room(name) >= 1 then more_room[#more_room + 1] = name end
      end
    end
    return_turns(q, more_room)
  end

  -- Writes the starts that were counted.
  park.write = function()
    local words, fresh, busy, counts, first = {}, {}, {}, is_counted(worker), whole(q.first)
    for name, started in pairs(park.started) do
      if started > 0 and counted.most and counts then
        busy[#busy + 1], busy[#busy + 2] = name, whole(park.busy[name] + started)
      end
      if started > 0 and counted.most_cost and park.costs[name] and counts then
        busy[#busy + 1], busy[#busy + 2] = 'cost ' .. name, whole(park.costs[name])
      end
      if started > 0 and #rates > 0 then
        local levels = park.fresh[name] and not park.has_costs and fresh[started]
        if not levels then
          levels = ''
          for i = 1, #rates do
            level_of(rates[i], name)
            add_starts(rates[i], started_of(rates[i], name), first)
            levels = levels .. level_text(rates[i])
          end
          if park.fresh[name] then fresh[started] = levels end
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
