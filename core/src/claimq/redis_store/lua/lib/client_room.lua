-- What limits per client hold back. Reads only; start_limits, paused, counts and levels come first.

-- How many items the clients may start now by their limits: exact for the first SAMPLE clients that have
-- turns, and for the others as many on the average. Also how many clients have items, and when the first of
-- those that are parked may start one (nil: none is parked). text: the limits in force; cost: what each
-- item costs.
local SAMPLE = 64
local function client_room(q, text, cost)
  -- include tags parked pauses
  read_last(q)
  local rates, most, most_cost = limits_of(text, 'client')
  local room, seen = 0, 0
  local clients, with_turns = redis.call('ZCARD', q.clients), turns(q)
  local names = with_turns > 0
    and redis.call('ZRANGE', q.clients, '0', whole(math.min(with_turns, SAMPLE) - 1)) or {}
  local levels = #names > 0 and redis.call('HMGET', q.base .. 'starts', unpack(names))
  local paused = q.pauses and paused_clients(q, names) or {}
  local busy = most and #names > 0 and redis.call('HMGET', q.base .. 'in_progress', unpack(names))
  local costs = most_cost and #names > 0 and costs_in_progress(q, names)
  for i, name in ipairs(names) do
    if name == '-' then clients = clients - 1
    elseif paused[name] then seen = seen + 1
    else
      local free = count_in(q, name)
      if busy then free = math.max(0, math.min(free, most - setting(busy[i], 0, 0, most))) end
      if costs then free = math.min(free, room_beside(costs[i], cost, most_cost)) end
      for _, rate in ipairs(rates) do
        read_level(q, rate, levels[i])
        free = math.min(free, math.max(math.floor(free_of(rate) / units_of(rate, cost)), 0))
      end
      room, seen = room + free, seen + 1
    end
  end
  if with_turns > #names then room = math.floor(room / math.max(seen, 1) * with_turns) end
  return room + count_in(q, '-'), clients, first_unparked(q)
end

-- The limit at which a client or key is, and when it may start an item again (ms; "": when one of its items
-- ends), also `after` others. text: the limits in force, scope: "client" or "key", busy, sum: its items in
-- progress and what they cost, field: its name in `starts`, cost: that of the item.
local function limit_at(q, text, scope, busy, sum, field, after, cost)
  local rates, limit, at = limits_of(text, scope), '', ''
  for full, most, unit in string.gmatch(text, '([%w-]+) ' .. scope .. ' busy (%d+) ?(%l*)') do
    local is_free = unit ~= 'cost' and busy < tonumber(most)
      or unit == 'cost' and fits_beside(sum, cost, tonumber(most))
    if not is_free then return full, '' end
  end
  local levels = #rates > 0 and redis.call('HGET', q.base .. 'starts', field)
  for _, rate in ipairs(levels and rates or {}) do
    read_level(q, rate, levels)
    local units = units_of(rate, cost)
    local start = free_of(rate) < units and start_of(rate, after, units)
    if start and (at == '' or start > at) then limit, at = rate.name, start end
  end
  return limit, at == '' and at or whole(at)
end
