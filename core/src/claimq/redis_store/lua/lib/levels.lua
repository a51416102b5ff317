-- Levels: the items of a client that have the priority high or low wait in lists of their own,
-- cq:{NAME}:high:CLIENT and low:CLIENT (high and low without a client). main:CLIENT and main have the items
-- of normal priority, and bare payloads. A queue has levels from the first item with a priority on:
-- q.has_levels. (docs/decisions/order-of-items.md)
local function key_of(q, client)
  if client == '-' then return q.main end
  return q.main .. ':' .. client
end

-- The list of a client's items of one level (high or low; nil: normal).
local function list_of(q, client, level)
  if not level then return key_of(q, client) end
  return q.base .. level .. (client == '-' and '' or ':' .. client)
end

-- The lists of a client, the highest level first.
local function lists_of(q, client)
  local list = key_of(q, client)
  if not q.has_levels then return {list} end
  return {list_of(q, client, 'high'), list, list_of(q, client, 'low')}
end

-- The length of a list, or the call is refused with its name.
local function length_of_list(list)
  local length = redis.pcall('LLEN', list)
  if type(length) == 'table' then
    error(string.find(length.err, '^WRONGTYPE') and {err = 'WRONGTYPE ' .. list .. ' is not a list'}
      or length)
  end
  return length
end

-- How many items of a client have a priority.
local function in_levels(q, client)
  return length_of_list(list_of(q, client, 'high')) + length_of_list(list_of(q, client, 'low'))
end

-- How many items a client has in main.
local function count_in(q, client)
  return redis.call('LLEN', key_of(q, client)) + (q.has_levels and in_levels(q, client) or 0)
end
