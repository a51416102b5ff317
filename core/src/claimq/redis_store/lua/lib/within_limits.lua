-- What the limits of a queue, and the pauses of its clients, let a claim start (lib/lease.lua).

-- Sets q.park, which knows how many items each client may start now, by its limits and its pause.
local function limit_clients(q, text, worker)
  -- include start_limits park
  q.park = new_park(q, text, worker)
end

-- Ends what stats has of limits per client, if none holds. Sets q.park for pauses.
local function end_park(q, worker)
  if q.pauses and not q.park then limit_clients(q, '', worker) end
  if q.park or not (q.limits and string.byte(q.limits, 2) == 124) then return end
  q.limits, q.has_written = string.gsub(q.limits, '^(.)|[^\n]*\n', '%1'), true
  redis.call('HSET', q.stats, 'limits', q.limits)
end

-- Sets q.costs, where limits count costs.
local function limit_costs(q, c, rates, most_cost)
  -- include start_limits cost_bounds costs
  new_costs(q, rates, most_cost, c.ending_cost)
end

local function within_limits(q, c, count)
  -- include start_limits
  local text = in_force(q, c.limits)
  local rates, most, room, next_start, most_cost = read_limits(q, text, count)
  if most_cost or string.find(text, ' client ', 1, true) then limit_clients(q, text, c.worker) end
  if string.find(text, ' cost', 1, true) then limit_costs(q, c, rates, most_cost) end
  c.next_start = next_start
  c.note_starts = function(started)
    local flag, levels, first = q.is_full and '1' or '0', '', q.first
    for i = 1, #rates do
      add_starts(rates[i], rates[i].started or started, first)
      levels = levels .. level_text(rates[i])
    end
    if q.costs then q.costs.write_mean() end
    q.limits, q.has_starts = flag .. (q.park and q.park.bands() or '') .. levels, true
  end
  if most then
    c.free = math.max(0, most - math.max(c.leased - 1, 0) + (c.ending or 0))
    room = math.min(room, c.free)
  end
  return room
end

-- Limits that are gone: what starts now does not count for them, so it gives nothing back.
local function end_returns(q)
  -- include start_limits
  local half = LEVEL_BYTES / 2
  local kept, low_and_from = ';[%w-]+ [%w ]+=' .. string.rep('.', half), string.rep('.', half)
  local limits = string.gsub(q.limits, '(' .. kept .. ')' .. low_and_from, '%1' .. string.rep('\0', half))
  q.has_starts, q.limits = limits ~= q.limits, limits
end
