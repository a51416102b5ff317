-- Finds an item in a list of main by the instant at which it entered the list. From head to tail instants
-- grow, but for items that were given back to the head: these have a place. Bare payloads have no instant.
-- Items of one call have the same instant; the scores of their ids, if their producer gave them, are in their
-- order (lib/enqueue.lua).
local PROBES, FEW, MANY = 60, 8, 1000

-- The item with this id that is FEW or at most MANY places away, and its index from the head.
local function seek_near(q, client, list, is_it, index)
  -- include unknown read_within read_oldest
  local largest = largest_in(q, client)
  for _, places in ipairs({FEW, MANY}) do
    local first = math.max(index - places, 0)
    for i, envelope in ipairs(read_oldest(q, list, first, 2 * places + 1, largest)) do
      if is_it(envelope) then return envelope, first + i - 1 end
    end
  end
end

-- The item and its index from the head; nil if it is not found. target: the instant, with the fraction of the
-- score of the item's id; later: how many ids have a higher score, or nil. So many items are behind it if no
-- other client has any. It reads there, at the ends of the list, and then where the item is if items arrive
-- evenly; every third time it reads the middle of what is left.
local function seek(q, client, list, length, is_it, target, later)
  local low, high, low_at, high_at, same = 0, length - 1, nil, nil, nil
  local index = math.max(high - (later or 0), 0)
  for probe = 1, PROBES do
    if low > high or not has_room(q, 0) then break end
    local envelope = redis.call('LINDEX', list, whole(-1 - index))
    has_room(q, #envelope)
    if is_it(envelope) then return envelope, index end
    local at, is_back = tonumber(enqueued_at(envelope)), string.find(envelope, '^cq1[^\n]*"place":"')
    if not at then return nil end
    local is_same = at == math.floor(target) and not is_back
    if is_same then
      local score = redis.call('ZSCORE', q.base .. 'ids', string.match(envelope, '^cq1[ !](%S+)'))
      same, at = index, at + (score and score % 1 or 0)
      if at == target then break end
    end
    if at < target or is_back then low, low_at = index + 1, not is_back and at or nil
    else high, high_at = index - 1, at end
    local is_between = low_at and high_at and low_at <= target and target <= high_at and low_at < high_at
    if is_same and probe % 3 ~= 0 then
      index = math.max(low, math.min(high, index + math.floor((target - at) * 1024)))
    elseif is_between and probe % 3 ~= 0 then
      index = low + math.floor((high - low) * (target - low_at) / (high_at - low_at))
    elseif probe < 3 then index = high_at and low or high
    else index = math.floor((low + high) / 2) end
  end
  if same then return seek_near(q, client, list, is_it, same) end
end
