-- Of the items of a client that are claimed while others of a lower level wait, every eighth is one of
-- those: of the next lower level, or, by the same rule among these, of the lowest. So no item waits
-- forever. The hash `levels` has a count for each client.
local SHARE, CYCLE = 8, 64

-- The lists of a client that have items, the highest level first, how many these have in all (left), and
-- the count. Nil and the error if one is no list.
local function read_levels(q, client, count)
  local levels = {left = 0, count = setting(count, 0, 0, CYCLE)}
  for _, list in ipairs(lists_of(q, client)) do
    local length = redis.pcall('LLEN', list)
    if type(length) == 'table' then return nil, length end
    levels.left = levels.left + length
    if length > 0 then levels[#levels + 1] = {list = list, left = length} end
  end
  return levels
end

-- The list from which the next item is taken; nil if all are empty.
local function next_list(levels)
  local rank = 1
  if #levels > 1 then
    levels.count = (levels.count + 1) % CYCLE
    local turn = levels.count
    while turn % SHARE == 0 and rank < #levels do turn, rank = turn / SHARE, rank + 1 end
  end
  local chosen = levels[rank]
  if not chosen then return nil end
  chosen.left = chosen.left - 1
  if chosen.left == 0 then table.remove(levels, rank) end
  return chosen.list
end
