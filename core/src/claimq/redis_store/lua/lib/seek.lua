-- Finds an item in a list of main by the instant at which it entered the list. From head to tail instants
-- grow, but for items that were given back to the head: these have a place. Bare payloads have no instant.
-- Items of one enqueue have the same instant, at most 1,000 of them.
local PROBES, FEW, MANY = 60, 8, 1000

-- The item with this id that is at most so many places away, and its index from the head.
local function seek_near(q, list, is_it, index, places, largest)
  local first = math.max(index - places, 0)
  for i, envelope in ipairs(read_oldest(q, list, first, 2 * places + 1, largest)) do
    if is_it(envelope) then return envelope, first + i - 1 end
  end
end

-- The item and its index from the head; nil if it is not found. It reads the ends of the list first, then
-- where the item is if items arrive evenly, and every third time the middle of what is left.
local function seek(q, client, list, is_it, target)
  local low, high, low_at, high_at = 0, redis.call('LLEN', list) - 1, nil, nil
  for probe = 1, PROBES do
    if low > high or not has_room(q, 0) then return nil end
    local index = probe == 1 and low or probe == 2 and high or math.floor((low + high) / 2)
    local is_between = low_at and high_at and low_at <= target and target <= high_at and low_at < high_at
    if is_between and probe % 3 ~= 2 then
      index = low + math.floor((high - low) * (target - low_at) / (high_at - low_at))
    end
    local envelope = redis.call('LINDEX', list, whole(-1 - index))
    has_room(q, #envelope)
    if is_it(envelope) then return envelope, index end
    local at, is_back = tonumber(enqueued_at(envelope)), string.find(envelope, '^cq1[^\n]*"place":"')
    if not at then return nil end
    if at == target and not is_back then
      local largest = largest_in(q, client)
      local near, near_index = seek_near(q, list, is_it, index, FEW, largest)
      if not near then near, near_index = seek_near(q, list, is_it, index, MANY, largest) end
      return near, near_index
    end
    if at < target or is_back then low, low_at = index + 1, not is_back and at or nil
    else high, high_at = index - 1, at end
  end
end
