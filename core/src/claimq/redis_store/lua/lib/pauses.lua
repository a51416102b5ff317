-- Reads several pauses (lib/paused.lua).

-- When the pauses of clients end: name -> instant (ms).
local function paused_clients(q, names)
  local parts, ends = {}, {}
  for i, name in ipairs(names) do parts[i] = 'client ' .. name end
  for i, text in ipairs(#parts > 0 and redis.call('HMGET', q.base .. 'pauses', unpack(parts)) or {}) do
    ends[names[i]] = end_of(q, text)
  end
  return ends
end

-- The pauses that are not over, as parts and texts, one after the other; the parts of the others; when the
-- first one ends; how many clients are paused; when the first pause of a key ends (nil: none is paused).
local function read_pauses(q)
  local pauses, over, next_end, clients, key_end = {}, {}, NEVER_MS, 0, nil
  local stored = redis.call('HGETALL', q.base .. 'pauses')
  for i = 1, #stored, 2 do
    local ends = end_of(q, stored[i + 1])
    if ends then
      pauses[#pauses + 1], pauses[#pauses + 2], next_end = stored[i], stored[i + 1], math.min(next_end, ends)
      if string.find(stored[i], '^client ') then clients = clients + 1 end
      if string.find(stored[i], '^key ') then key_end = math.min(key_end or NEVER_MS, ends) end
    else over[#over + 1] = stored[i] end
  end
  return pauses, over, next_end, clients, key_end
end

-- How many items of main wait for the pauses of their clients.
local function count_paused(q)
  local pauses, count = read_pauses(q), 0
  for i = 1, #pauses, 2 do
    local name = string.match(pauses[i], '^client (.*)$')
    if name then count = count + count_in(q, name) end
  end
  return count
end
