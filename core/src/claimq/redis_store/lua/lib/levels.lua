-- Levels: the items of a client that have the priority high or low wait in lists of their own, cq:{NAME}:high:CLIENT and low:CLIENT (high and low without a
-- client). main:CLIENT and main have the items of normal priority, and bare payloads. A queue has levels from the first item with a priority on:
-- seen.levels. (docs/decisions/order-of-items.md)

-- The list of a client's items of one priority; nil: normal.
local function list_of(q, client, priority)
  if not priority then return key_of(q, client) end
  return q.base .. priority .. (client == '-' and '' or ':' .. client)
end

-- The lists of a client, the highest priority first.
local function lists_of(q, client)
  local list = key_of(q, client)
  if not q.seen.levels then return {list} end
  return {list_of(q, client, 'high'), list, list_of(q, client, 'low')}
end

-- The length of a list, or the call is refused with its name.
local function length_of_list(list)
  local length = redis.pcall('LLEN', list)
  if type(length) == 'table' then error(string.find(length.err, '^WRONGTYPE') and {err = 'WRONGTYPE ' .. list .. ' is not a list'} or length) end
  return length
end

-- How many items of a client have a priority.
-- On demand: few queues have levels.
local function in_levels(q, client)
  return length_of_list(list_of(q, client, 'high')) + length_of_list(list_of(q, client, 'low'))
end

-- How many items a client has in main.
local function count_in(q, client)
  return redis.call('LLEN', key_of(q, client)) + (q.seen.levels and in_levels(q, client) or 0)
end

-- Refuses what enter_level() refuses. Reads only.
-- On demand: few items have a priority.
local function check_level(q, client, priority)
  length_of_list(list_of(q, client, priority))
  if not q.seen.levels then expect_hash(q.base .. 'levels') end
end

-- The list that an item of this priority enters now; nil for a normal one. From the first on, all calls look for such lists. The key `levels` is written
-- too, so that repair finds out when the field of stats is lost.
-- On demand: few items have a priority.
local function enter_level(q, client, priority)
  if not priority then return nil end
  if not q.seen.levels then
    q.seen.levels = '1'
    redis.call('HSET', q.stats, 'levels', '1')
    redis.call('HSET', q.base .. 'levels', '-', '0')
  end
  return list_of(q, client, priority)
end

-- Of those at the heads of a client's lists, the item that has waited longest; nil if there is none. What it reads counts as bytes of this call. It may
-- come after a write, so a key of another type counts as empty.
local function oldest_of(q, client)
  local oldest, since
  for _, list in ipairs(lists_of(q, client)) do
    local envelope = redis.pcall('LINDEX', list, -1)
    if type(envelope) == 'string' then
      local at = tonumber(enqueued_at(envelope)) or math.huge  -- a bare payload has no instant
      if not since or at < since then oldest, since = envelope, at end
      has_room(q, #envelope)
    end
  end
  return oldest
end

-- Forgets clients that have no items left in main.
local function forget(q, clients)
  redis.call('ZREM', q.heads, unpack(clients))
  if q.seen.levels then redis.call('HDEL', q.base .. 'levels', unpack(clients)) end
end

-- The list in which the item at a place of all that a client has in main stands, its place there, and the length of that list. Nil behind the last.
local function list_at(q, client, position)
  for _, list in ipairs(lists_of(q, client)) do
    local length = redis.call('LLEN', list)
    if position < length then return list, position, length end
    position = position - length
  end
end

-- Up to `count` envelopes that wait in one state, main (of one client) or delayed, after the first `skip` of them.
local function read_waiting(q, state, client, skip, count, largest)
  if state ~= 'main' then
    return read_within(q, count, function(read, more)
      return redis.call('ZRANGE', q.delayed, whole(skip + read), whole(skip + read + more - 1))
    end)
  end
  local lists, got = lists_of(q, client), {}
  for i, list in ipairs(lists) do
    local length = #lists > 1 and redis.call('LLEN', list) or math.huge
    if skip < length and #got < count and has_room(q, 0) then
      for _, envelope in ipairs(read_oldest(q, list, skip, count - #got, largest)) do got[#got + 1] = envelope end
    end
    skip = math.max(skip - length, 0)
  end
  return got
end

-- How many items are in main beyond those that were enqueued or given a header, and not removed. Nil where failed is not a set.
local function unknown_in_main(q)
  local failed = redis.pcall('ZCARD', q.failed)
  if type(failed) == 'table' then return nil end  -- claims go on there
  local totals, held = q.totals, busy_count(q) + redis.call('ZCARD', q.delayed) + failed
  local counts = redis.call('HMGET', q.stats, 'adopted', 'dropped', 'failed_removed', 'flushed')
  local removed = totals.done + (tonumber(counts[2]) or 0) + (tonumber(counts[3]) or 0) + (tonumber(counts[4]) or 0)
  return count_in(q, '-') + q.client_items - (totals.enqueued + (tonumber(counts[1]) or 0) - removed - held)
end

-- A size that no item of a list of main exceeds; nil if there may be bare payloads.
local function largest_in(q, client)
  local unknown = q.largest > 0 and unknown_in_main(q)
  if not unknown or client == '-' and unknown ~= 0 then return nil end
  return q.largest
end
