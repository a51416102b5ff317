-- Costs of items, while limits by cost hold for the queue or its clients (lib/start_limits.lua). An item
-- whose cost does not fit holds its turn: one of a client parks it until the cost fits, and one that does not
-- fit for the queue stays where it is, and nothing else starts until it does (q.costs.stops): at next_start,
-- or after an end (q.costs.is_full). The field `mean_cost` of stats has what items cost on the average, of
-- late.

-- Sets q.costs, if there are such limits. rates, most_cost: those of the queue; ending_cost(): what the
-- claims cost that this call ends.
local function new_costs(q, rates, most_cost, ending_cost)
  -- include cost_of client_of wait_of
  local costs, by_cost = {sum = 0, items = 0}, {}
  for _, rate in ipairs(rates) do
    if rate.is_by_cost then by_cost[#by_cost + 1], rate.started = rate, 0 end
  end
  if #by_cost == 0 and not most_cost and not (q.park and q.park.has_costs) then return end
  local in_progress = nil  -- what they cost before this call, but for what it ends

  -- Counts items of a client that start (more: 1), or do not after all (-1).
  costs.count = function(client, envelope, more)
    local cost = cost_of(envelope)
    for _, rate in ipairs(by_cost) do rate.started = rate.started + more * units_of(rate, cost) end
    if q.park then q.park.spend(client, cost, more) end
    costs.sum, costs.items = costs.sum + more * cost, costs.items + more
  end

  -- Whether the next item of a client may start; then it counts.
  costs.take = function(client, envelope)
    local cost = cost_of(envelope)
    if q.park and not q.park.fits(client, cost) then return false end
    for _, rate in ipairs(by_cost) do
      local at = wait_of(rate, rate.started, cost)
      if at then costs.next_start = math.max(costs.next_start or 0, at) end
    end
    if most_cost and not in_progress then
      in_progress = math.max(costs_in_progress(q, {'-'})[1] - (ending_cost and ending_cost() or 0), 0)
    end
    costs.is_full = not fits_beside((in_progress or 0) + costs.sum, cost, most_cost)
    costs.stops = costs.is_full or costs.next_start
    if costs.stops then return false end
    costs.count(client, envelope, 1)
    return true
  end

  -- Takes back what was counted for items that are not handed out: of `got` those that are not in `kept`.
  costs.uncount = function(got, kept)
    for _, envelope in ipairs(got) do costs.count(client_of(envelope), envelope, -1) end
    for _, envelope in ipairs(kept) do costs.count(client_of(envelope), envelope, 1) end
  end

  -- Nothing else starts until the item does whose turn it is, also no client that enters the ring until then.
  costs.hold_turn = function()
    local text = q.turn and whole(q.turn.at) .. ' ' .. whole(q.turn.mean)
    if text and text ~= q.turns then redis.call('HSET', q.stats, 'turns', text) end
    return not costs.is_full and costs.next_start or nil
  end

  -- The scaling rule divides by it.
  costs.write_mean = function()
    local mean = setting(redis.call('HGET', q.stats, 'mean_cost'), 0, 1, MOST_COST)
    local kept = mean > 0 and 0.97 ^ costs.items or 0
    local text = format_text('%.3f', kept * mean + (1 - kept) * costs.sum / costs.items)
    redis.call('HSET', q.stats, 'mean_cost', text)
  end

  q.costs = costs
end
