-- The hash `in_progress`, while bounds on items in progress need it: CLIENT has how many items of the client
-- are in progress, "cost CLIENT" what these cost, and "cost -" what all items in progress cost. start_limits,
-- cost_of and client_of come first.

-- Adds to a field. What another client has written there, and is no number, counts as 0.
local function add_in_progress(q, field, more)
  local key = q.base .. 'in_progress'
  if type(redis.pcall('HINCRBY', key, field, whole(more))) ~= 'number' then
    redis.call('HSET', key, field, whole(more))
  end
end

-- The bounds among limits: most (items of a client), most_cost (of a client) and queue_cost. add() adds an
-- item to `fields`.
local function new_sums(limits)
  local _, most, most_cost = limits_of(limits, 'client')
  local _, _, queue_cost = limits_of(limits, 'queue')
  local sums = {most = most, most_cost = most_cost, queue_cost = queue_cost, fields = {}}
  local function add_to(field, more) sums.fields[field] = (sums.fields[field] or 0) + more end

  sums.add = function(envelope)
    local client, cost = client_of(envelope), (most_cost or queue_cost) and cost_of(envelope)
    if most and client ~= '-' then add_to(client, 1) end
    if most_cost and client ~= '-' then add_to('cost ' .. client, cost) end
    if queue_cost then add_to('cost -', cost) end
  end

  return sums
end
