-- Limits of the policy: how many items may start. A start is a claim that is not given back. The field
-- `limits` of config has "NAME queue rate STARTS PERIOD BURST" or "NAME queue busy MOST" for each, with ";"
-- between them. That of stats begins with 1 while items wait for the end of a claim, else with 0, and has
-- ";NAME LEVEL AT LOW FROM PERIOD BURST" for each rate, a bucket of whole numbers: a start adds PERIOD (ms)
-- to LEVEL, a millisecond takes STARTS away, and items start while LEVEL is at most (BURST - 1) * PERIOD. AT
-- is when LEVEL was true. LOW and FROM are for claims that are given back: of those with the number FROM or a
-- later one at least LOW is in the bucket, whatever was claimed since. (docs/decisions/start-limits.md)

-- The limits that hold now. Behind "|" the config has temporary ones, "UNTIL BY REASON LIMIT" with ";"
-- between them: until then (ms) each holds in place of that with its name, or none does ("NAME off").
local function in_force(q, text)
  local limits, temporary = string.match(text, '^([^|]*)|(.*)$')
  if not temporary then return text end
  for ends, limit, name in string.gmatch(temporary, '(%d+) %S+ %S+ (([%w-]+)[^;]*)') do
    if #ends < 17 and tonumber(ends) > q.now then
      local replaced = ';' .. string.gsub(name, '%-', '%%-') .. ' [^;]*'
      limits = string.gsub(';' .. limits, replaced, '') .. ';' .. limit
    end
  end
  return limits
end

-- The rates with their levels now, and the smallest bound on items in progress (nil: none); how many of
-- `room` items may start now by the rates, and when the next one may if none does. What another client has
-- written into the policy, and is no limit, is none.
local function read_limits(q, text, room)
  local rates, most, next_start = {}, nil, nil
  for name, kind, first, spec in string.gmatch(in_force(q, text), '([%w-]+) queue (%a+) (%d+) ?([%d ]*)') do
    local number = #first < 8 and tonumber(first) or 0
    local period, burst = string.match(spec, '^([1-9]%d*) ([1-9]%d*)$')
    if number > 0 and kind == 'busy' then
      if not most or number < most then most = number end
    elseif number > 0 and kind == 'rate' and period and #spec < 17 then
      period = tonumber(period)
      local rate = {name = name, spec = spec, period = period, full = burst * period, level = 0, at = q.now,
        low = 0, from = 0}
      local _, place = string.find(q.limits or '', ';' .. name .. ' ', 1, true)
      local level, at, low, from, before
      if place then
        level, at, low, from, before = string.match(q.limits, '^(%d+) (%d+) (%d+) (%d+) ([%d ]+)', place + 1)
      end
      if level and #level < 17 then
        level, at = tonumber(level), tonumber(at)
        if before == spec then rate.low, rate.from = tonumber(low), tonumber(from)
        else  -- a changed limit: the starts that count stay, but never more than the burst
          before = tonumber(string.match(before, '^[1-9]%d*')) or 1
          level = math.min(math.ceil(level / before * period), rate.full)
        end
        local passed = q.now - at
        if passed >= 0 then level = level - passed * number
        elseif passed > -5000 then rate.at = at  -- the clock went back a little
        else level = 0 end
        rate.level = level > 0 and level or 0
      end
      local free = (rate.full - rate.level) / period
      rate.free = math.floor(free)
      if free < 1 then
        local start = rate.at + math.ceil((rate.level - rate.full + period) / number)
        room, next_start = 0, next_start and next_start > start and next_start or start
      elseif free < room then room = math.floor(free) end
      rates[#rates + 1] = rate
    end
  end
  return rates, most, room, next_start
end

local function level_text(rate)
  return format_text(';%s %d %d %d %d %s', rate.name, rate.level, rate.at, rate.low, rate.from, rate.spec)
end
