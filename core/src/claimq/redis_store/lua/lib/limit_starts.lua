-- How many of these items may start now, where limits or pauses hold, or limits have held. Sets q.park,
-- q.costs, c.next_start (when a rate lets the next item start), c.free (how many more may be in progress;
-- nil: no bound) and c.note_starts, which counts starts.
local function limit_starts(q, c, count)
  -- include start_limits

  -- The same for limits per client or by cost, for pauses of clients, and where limits have held.
  local function limit_more(text, rates, most_cost)
    -- include cost_bounds costs park
    if q.pauses or most_cost or string.find(text, ' client ', 1, true) then
      q.park = new_park(q, text, c.worker)
    elseif q.limits and string.byte(q.limits, 2) == 124 then  -- no limit per client holds any more
      q.limits, q.has_written = string.gsub(q.limits, '^(.)|[^\n]*\n', '%1'), true
      redis.call('HSET', q.stats, 'limits', q.limits)
    end
    if string.find(text, ' cost', 1, true) then new_costs(q, rates, most_cost, c.ending_cost) end
  end

  -- Limits that are gone: what starts now does not count for them, so it gives nothing back.
  local function end_returns()
    local half = LEVEL_BYTES / 2
    local kept, low_and_from = ';[%w-]+ [%w ]+=' .. string.rep('.', half), string.rep('.', half)
    local limits = string.gsub(q.limits, '(' .. kept .. ')' .. low_and_from, '%1' .. string.rep('\0', half))
    q.has_starts, q.limits = limits ~= q.limits, limits
  end

  if not c.limits then
    limit_more('', {}, nil)
    if q.limits then c.note_starts = end_returns end
    return count
  end
  local text = in_force(q, c.limits)
  local rates, most, room, next_start, most_cost = read_limits(q, text, count)
  if q.pauses or string.find(text, ' c', 1, true) or q.limits and string.byte(q.limits, 2) == 124 then
    limit_more(text, rates, most_cost)
  end
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
