-- Limits of the policy: how many items may start. A start is a claim that is not given back. The field
-- `limits` of config has "NAME queue rate STARTS PERIOD BURST" or "NAME queue busy MOST" for each, with ";"
-- between them, and "client" or "key" in place of "queue" for a limit that each client, or each key, has
-- (lib/park.lua, lib/key_limits.lua). Behind BURST or MOST, " cost" says that the limit counts what the items
-- cost (lib/costs.lua), not the items. That of stats begins with 1 while items wait for the end of a claim,
-- else with 0; then come the bands of lib/park.lua, if there are any, and then the levels: for each rate
-- ";NAME PERIOD BURST=" and a bucket of four binary numbers, LEVEL, AT, LOW and FROM. A start adds PERIOD
-- (ms) to LEVEL, a millisecond takes STARTS away, and items start while LEVEL is at most
-- (BURST - 1) * PERIOD. AT is when LEVEL was true. LOW and FROM are for claims that are given back: of those
-- with the number FROM or a later one at least LOW is in the bucket, whatever was claimed since.
-- (docs/decisions/start-limits.md)
local LEVEL, LEVEL_BYTES = '<i8i8i8i8', 32

-- The limits that hold now. Behind "|" the config has temporary ones, "UNTIL BY REASON LIMIT" with ";"
-- between them: until then (ms) each holds in place of that with its name, or none does ("NAME off").
local function in_force(q, text)
  if not string.find(text, '|', 1, true) then return text end
  local limits, temporary = string.match(text, '^([^|]*)|(.*)$')
  for ends, limit, name in string.gmatch(temporary, '(%d+) %S+ %S+ (([%w-]+)[^;]*)') do
    if #ends < 17 and tonumber(ends) > q.now then
      local replaced = ';' .. string.gsub(name, '%-', '%%-') .. ' [^;]*'
      limits = string.gsub(';' .. limits, replaced, '') .. ';' .. limit
    end
  end
  return limits
end

-- The rates of the queue, or of each client or key (scope), and the smallest bounds on items in progress and
-- on their costs (nil: none).
-- What another client has written into the policy, and is no limit, is none.
local function limits_of(text, scope)
  local rates, most, most_cost = {}, nil, nil
  local pattern = '([%w-]+) ' .. scope .. ' (%a+) (%d+) ?(%d*) ?(%d*) ?(%l*)'
  for name, kind, first, period, burst, unit in string.gmatch(text, pattern) do
    local number, is_by_cost = #first < 8 and tonumber(first) or 0, unit == 'cost'
    local each, starts = tonumber(period) or 0, tonumber(burst) or 0
    if number > 0 and kind == 'busy' and is_by_cost then most_cost = math.min(most_cost or number, number)
    elseif number > 0 and kind == 'busy' then most = math.min(most or number, number)
    elseif number > 0 and kind == 'rate' and each > 0 and starts > 0 and #period + #burst < 16 then
      rates[#rates + 1] = {name = name, note = ';' .. name .. ' ' .. period .. ' ' .. burst .. unit .. '=',
        starts = number, period = each, burst = starts, full = starts * each, is_by_cost = is_by_cost,
        level = 0, at = 0, low = 0, from = 0, free = 0}
    end
  end
  return rates, most, most_cost
end

-- Sets the level of a rate now, from a text that has levels.
local function read_level(q, rate, levels)
  rate.level, rate.at, rate.low, rate.from = 0, q.now, 0, 0
  if not levels then return end
  local _, place = string.find(levels, rate.note, 1, true)
  local period = nil
  if not place then
    local pattern = ';' .. string.gsub(rate.name, '%-', '%%-') .. ' ([1-9]%d*) [%w ]*='
    _, place, period = string.find(levels, pattern)
  end
  if not place or #levels < place + LEVEL_BYTES then return end
  local level, at, low, from = struct.unpack(LEVEL, levels, place + 1)
  if level < 0 or level > LAST_NUMBER or low < 0 or low > LAST_NUMBER or from < 0 then return end
  if period then  -- a changed limit: the starts that count stay, but never more than the burst
    level = math.min(math.ceil(level / tonumber(period) * rate.period), rate.full)
  else rate.low, rate.from = low, from end
  local passed = q.now - at
  if passed >= 0 then level = level - passed * rate.starts
  elseif passed > -5000 and level > 0 then rate.at = at  -- the clock went back a little
  else level = 0 end
  rate.level = math.max(level, 0)
end

-- What an item counts for a rate. By cost never more than the burst: an item that waits while its limit is
-- lowered below its cost starts alone.
local function units_of(rate, cost) return rate.is_by_cost and math.min(cost, rate.burst) or 1 end

-- How many units a rate lets start now, after `started` more, and when it lets as many as `units` start.
local function free_of(rate, started)
  return math.floor((rate.full - rate.level) / rate.period) - (started or 0)
end
local function start_of(rate, started, units)
  local level = rate.level + ((started or 0) + (units or 1)) * rate.period
  return rate.at + math.ceil((level - rate.full) / rate.starts)
end

-- Counts units that start with the claim of this number.
local function add_starts(rate, started, number)
  local least = (rate.is_by_cost and started or 1) * rate.period  -- so much may be given back
  if rate.level < least or rate.low < least then rate.low, rate.from = rate.full, number
  elseif rate.level < rate.low then rate.low = rate.level end
  rate.level = math.min(rate.level + started * rate.period, LAST_NUMBER)
end

-- From limits in force: the rates of the queue with their levels now, and the smallest bound on items in
-- progress (nil: none); how many of `room` items may start now by the rates, and when the next one may if
-- none does; the smallest bound on costs. cost: what each of them costs (1 without it).
local function read_limits(q, text, room, cost)
  local rates, most, most_cost = limits_of(text, 'queue')
  local next_start
  for i = 1, #rates do
    local rate = rates[i]
    read_level(q, rate, q.limits)
    local units = cost and units_of(rate, cost) or 1
    rate.free = math.floor(free_of(rate) / units)
    if rate.free < 1 then
      local start = start_of(rate, 0, units)
      room, next_start = 0, next_start and next_start > start and next_start or start
    else room = math.min(room, rate.free) end
  end
  return rates, most, room, next_start, most_cost
end

local function level_text(rate)
  return rate.note .. struct.pack(LEVEL, rate.level, rate.at, rate.low, rate.from)
end
