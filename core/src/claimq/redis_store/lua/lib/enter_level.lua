-- Items of a level enter main.

-- Refuses what enter_level() refuses. Reads only.
local function check_level(q, client, level)
  length_of_list(list_of(q, client, level))
  if not q.has_levels then expect_hash(q.base .. 'levels') end
end

-- The list that an item of this level enters now; nil for a normal one. From the first on, all calls look
-- for such lists. The key `levels` is written too, so that repair finds out when the field of stats is lost.
local function enter_level(q, client, level)
  if not level then return nil end
  if not q.has_levels then
    q.has_levels = true
    redis.call('HSET', q.stats, 'levels', '1')
    redis.call('HSET', q.base .. 'levels', '-', '0')
  end
  return list_of(q, client, level)
end
