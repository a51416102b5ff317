-- Finds items of main that no script put there.

-- Returns how many items are in main beyond those that were enqueued or adopted, and not removed. Returns nil
-- if failed is not a set.
local function unknown_in_main(q)
  local failed = redis.pcall('ZCARD', q.base .. 'failed')
  if type(failed) == 'table' then return nil end  -- claims go on there
  local counts = redis.call('HMGET', q.base .. 'stats', 'enqueued', 'adopted', 'done', 'dropped',
    'failed_removed', 'flushed')
  local entered, left = 0, 0
  for i = 1, 2 do entered = entered + (tonumber(counts[i]) or 0) end
  for i = 3, 6 do left = left + (tonumber(counts[i]) or 0) end
  local held = busy_count(q) + redis.call('ZCARD', q.delayed) + failed
  return count_in(q, '-') + q.client_items - (entered - left - held)
end

-- A size that no item of a list of main exceeds; nil if there may be bare payloads.
local function largest_in(q, client)
  local unknown = q.largest > 0 and unknown_in_main(q)
  if not unknown or client == '-' and unknown ~= 0 then return nil end
  return q.largest
end
