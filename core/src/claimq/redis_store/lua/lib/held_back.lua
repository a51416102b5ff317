-- What keeps items of a queue from being claimed: 1 if it is suspended; its pauses as parts, texts, and the
-- items that wait for each; how many items the limits let start now (1e9: they are per key; or ""), behind it
-- how many clients have items, what an item costs, and the name of each rate, bound on costs and limit per
-- client and how many that lets start; when the limits let the next one start if none does (ms, or ""); the
-- limits as config has them.
-- `held`: items in progress. config: its fields suspended, pauses and limits. parts: which pauses, if not
-- all.

-- The pauses, or those of `parts`, each with its items: of a client in main, of a key those that are held.
local function pauses_of(q, parts)
  -- include pauses
  local pauses, reply = {}, {}
  if not parts then pauses = read_pauses(q)
  else
    for i, text in ipairs(redis.call('HMGET', q.base .. 'pauses', unpack(parts))) do
      if end_of(q, text) then pauses[#pauses + 1], pauses[#pauses + 2] = parts[i], text end
    end
  end
  for i = 1, #pauses, 2 do
    local kind, name = string.match(pauses[i], '^(%a+) (.*)$')
    local items = kind == 'client' and count_in(q, name)
      or kind == 'key'
      and redis.call('ZLEXCOUNT', q.base .. 'held', '[' .. name .. ' ', '(' .. name .. '!') or 0
    for _, word in ipairs({pauses[i], pauses[i + 1], items}) do reply[#reply + 1] = word end
  end
  return reply
end

-- What the limits let start, and when the next one may start if none does. cost: that of the item that is
-- asked for; else items cost what those that started lately did on the average.
local function limits_now(q, text, held, cost)
  -- include start_limits cost_bounds client_room
  text = in_force(q, text)
  if not string.find(text, ' cost', 1, true) then cost = 1 end
  cost = cost or setting(redis.call('HGET', q.base .. 'stats', 'mean_cost'), 1, 1, MOST_COST)
  local rates, most, room, at, most_cost = read_limits(q, text, 1e9, cost)
  room = math.min(room, most and math.max(0, most - held) or 1e9)
  local names, clients = {}, 0
  for i = 1, #rates do names[i] = format_text(' %s %d', rates[i].name, rates[i].free) end
  if most_cost then
    local sum = math.max(costs_in_progress(q, {'-'})[1], held)  -- for a new bound nothing is counted yet
    for name, bound in string.gmatch(text, '([%w-]+) queue busy (%d+) cost') do
      names[#names + 1] = format_text(' %s %d', name, room_beside(sum, cost, tonumber(bound)))
    end
    room = math.min(room, room_beside(sum, cost, most_cost))
  end
  if string.find(text, ' client ', 1, true) then
    local of_clients, first
    of_clients, clients, first = client_room(q, text, cost)
    for name in string.gmatch(text, '([%w-]+) client ') do
      names[#names + 1] = format_text(' %s %d', name, of_clients)
    end
    room = math.min(room, of_clients)
    if of_clients == 0 and first then at = math.max(at or first, first) end
  end
  return format_text('%d %d %.3f', room, clients, cost) .. table.concat(names), at and whole(at) or ''
end

local function held_back(q, held, config, parts, cost)
  local next_end, clients = next_pause_end(config[2])
  if clients > 0 then q.pauses = clients end
  local text, startable, next_start = config[3] or '', '', ''
  if text ~= '' then startable, next_start = limits_now(q, text, held, cost) end
  return {config[1] == '1' and 1 or 0, next_end and pauses_of(q, parts) or '', startable, next_start, text}
end
