-- Limits per client. A client at its limit is parked: its score in the ring is PARKED, and a band, and the
-- instant (ms) when it may start an item again. A claim that begins gives the clients whose instant has come
-- their turns back, so no claim looks at the items of those that wait. The hash `starts` has the levels of
-- the rates of each client, as stats has those of the queue (lib/start_limits.lua). An item without a client
-- counts for no limit per client.
--
-- Behind "|" the field `limits` of stats has the band (0 or 1) in which clients are parked, "+" while the
-- other one may have some, and the limits by which they were parked. Where other limits hold, clients are
-- parked in the other band from then on, and those of the band before get their turns back.

-- The limits per client among those in force, as take() asks them.
local function new_park(q, text)
  -- include tags parked unpark client_of
  local rates = limits_of(text, 'client')
  local texts, park, key = {}, {clients = {}, parked = 0}, q.base .. 'starts'
  for limit in string.gmatch(text, '[^;]+ client [^;]+') do texts[#texts + 1] = limit end
  text = table.concat(texts, ';')
  local band, moving, before = string.match(q.limits or '', '|([01])(%+?) (.*)$')
  band = tonumber(band) or 0

  -- Gives clients their turns back. Returns how many clients have turns.
  park.begin = function()
    local function has_more()
      local other = (1 - band) * BAND
      return q.has_parked and unpark(q, other, other + LAST_MS) == UNPARKED
    end
    local is_moving = moving == '+' and has_more()
    if text ~= before and not is_moving then
      band, before = 1 - band, text
      is_moving = has_more()
    end
    local tail = '|' .. band .. (is_moving and '+ ' or ' ') .. before
    if tail ~= tail_of(q) then
      q.limits = string.match(q.limits or '0', '^[^|]*') .. tail
      redis.call('HSET', q.stats, 'limits', q.limits)
    end
    if q.has_parked then unpark(q, band * BAND, band * BAND + q.now) end
    return turns(q)
  end

  local function read(levels)
    local client = {rates = {}, free = math.huge, started = 0, is_fresh = true}
    for i = 1, #rates do
      local of = rates[i]
      local rate = {name = of.name, spec = of.spec, starts = of.starts, period = of.period, full = of.full}
      read_level(q, rate, levels)
      client.rates[i], client.is_fresh = rate, client.is_fresh and rate.level == 0
      client.free = math.min(client.free, free_of(rate))
    end
    return client
  end

  -- Reads the levels of these clients.
  park.look = function(clients)
    local names = {}
    for _, name in ipairs(clients) do
      if name ~= '-' and not park.clients[name] then names[#names + 1] = name end
    end
    local stored = #names > 0 and redis.call('HMGET', key, unpack(names))
    for i = 1, #names do park.clients[names[i]] = read(stored[i]) end
  end

  -- How many items a client may start now.
  park.room = function(name)
    local client = park.clients[name]
    return client and client.free - client.started or math.huge
  end

  park.count = function(name, started)
    local client = park.clients[name]
    if client then client.started = client.started + started end
  end

  -- The score of a client that may start no item now.
  park.score = function(name)
    local client, at = park.clients[name], q.now
    for i = 1, #rates do
      local rate = client.rates[i]
      if free_of(rate, client.started) < 1 then at = math.max(at, start_of(rate, client.started)) end
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
    local counts, again = {}, {}
    local function count_each(envelopes, more)
      for _, envelope in ipairs(envelopes) do
        local name = client_of(envelope)
        counts[name] = (counts[name] or 0) + more
      end
    end
    count_each(got, -1)
    count_each(kept, 1)
    for name, more in pairs(counts) do
      if more < 0 and park.clients[name] then
        park.count(name, more)
        local score = park.room(name) >= 1 and redis.call('ZSCORE', q.clients, name)
        if score and tonumber(score) >= PARKED then
          again[#again + 1], again[#again + 2] = whole(next_tag(q)), name
        end
      end
    end
    sliced(again, function(...) redis.call('ZADD', q.clients, ...) end)
  end

  -- Writes the starts that were counted.
  park.write = function()
    local words, fresh = {}, {}
    for name, client in pairs(park.clients) do
      local started = client.started
      if started > 0 then
        local levels = client.is_fresh and fresh[started]
        if not levels then
          levels = ''
          for i = 1, #rates do
            add_starts(client.rates[i], started, q.first)
            levels = levels .. level_text(client.rates[i])
          end
          if client.is_fresh then fresh[started] = levels end
        end
        words[#words + 1], words[#words + 2] = name, levels
      end
    end
    sliced(words, function(...) redis.call('HSET', key, ...) end)
  end

  expect_hash(key)
  return park
end
