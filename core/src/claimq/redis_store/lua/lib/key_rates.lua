-- The rates per key, and the bound on the costs of its items in progress, as a claim asks them
-- (lib/key_limits.lua).

-- A function that returns what the first held item of a key costs. One that the call has no room to read
-- costs the most that there is: an item that is let go too early would come back in each call.
local function new_cost_of_first(q)
  -- include cost_of room sizes keys
  return function(key)
    local entry, is_gate = first_held(q, key)
    if not has_room(q, 0) then return MOST_COST end
    local place = entry and not is_gate and string.sub(entry, #key + 2)
    local envelope = place and redis.call('ZRANGE', q.delayed, place, place, 'BYSCORE')[1]
    if envelope then has_room(q, #envelope) end
    return envelope and cost_of(envelope) or 1
  end
end

-- From limits: nil if there is nothing to ask. sums: key -> what its items in progress cost, which a claim
-- adds to.
local function key_rates_of(q, limits, sums)
  -- include wait_of
  local rates, _, most_cost = limits_of(limits, 'key')
  if #rates == 0 and not most_cost then return nil end
  local levels, counted, key_rates, has_costs = {}, {}, {sums = sums}, most_cost
  for i = 1, #rates do
    rates[i].started, has_costs = {}, has_costs or rates[i].is_by_cost
  end
  local cost_of_first = has_costs and new_cost_of_first(q)

  -- Reads the levels of these keys.
  key_rates.look = function(keys)
    if #rates == 0 then return end
    local names, fields = {}, {}
    for _, key in ipairs(keys) do
      if key ~= NO_KEY and levels[key] == nil then
        names[#names + 1], fields[#fields + 1], levels[key] = key, 'key ' .. key, false
      end
    end
    local texts = #fields > 0 and redis.call('HMGET', q.base .. 'starts', unpack(fields)) or {}
    for i, text in ipairs(texts) do levels[names[i]] = text end
  end

  -- When an item of a key may start, if none of this cost may now; math.huge: when another one ends.
  key_rates.start = function(key, cost)
    if not fits_beside(sums[key] or 0, cost, most_cost) then return math.huge end
    local at
    for i = 1, #rates do
      read_level(q, rates[i], levels[key])
      local wait = wait_of(rates[i], rates[i].started[key], cost)
      if wait then at = math.max(at or 0, wait) end
    end
    return at
  end

  -- When the first held item of a key may, if it may not now.
  key_rates.next_start = function(key)
    return key_rates.start(key, cost_of_first and cost_of_first(key) or 1)
  end

  key_rates.count = function(key, cost)
    counted[key], sums[key] = true, (sums[key] or 0) + cost
    for i = 1, #rates do
      rates[i].started[key] = (rates[i].started[key] or 0) + units_of(rates[i], cost)
    end
  end

  -- Writes the starts that were counted.
  key_rates.write = function()
    local words, first = {}, q.first
    for key in pairs(#rates > 0 and counted or {}) do
      local text = ''
      for i = 1, #rates do
        read_level(q, rates[i], levels[key])
        add_starts(rates[i], rates[i].started[key], first)
        text = text .. level_text(rates[i])
      end
      words[#words + 1], words[#words + 2] = 'key ' .. key, text
    end
    sliced(words, function(...) redis.call('HSET', q.base .. 'starts', ...) end)
  end

  return key_rates
end
