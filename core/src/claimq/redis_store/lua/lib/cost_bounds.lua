-- Bounds on what the items in progress cost.

-- Whether an item of this cost fits beside items in progress. Like below, it counts as the bound at most.
local function fits_beside(sum, cost, most_cost)
  return not most_cost or sum + math.min(cost, most_cost) <= most_cost
end

-- What the items in progress of each of these clients cost, or of all of them ("-"), as lib/in_progress.lua
-- stores it.
local function costs_in_progress(q, clients)
  local fields = {}
  for i, client in ipairs(clients) do fields[i] = 'cost ' .. client end
  local costs = redis.call('HMGET', q.base .. 'in_progress', unpack(fields))
  for i = 1, #costs do costs[i] = setting(costs[i], 0, 0, LAST_NUMBER) end
  return costs
end

-- How many items of this cost fit.
local function room_beside(sum, cost, most_cost)
  return math.max(0, math.floor((most_cost - sum) / math.min(cost, most_cost)))
end
