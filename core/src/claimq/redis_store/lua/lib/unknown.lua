-- Finds items of main that no script put there.

-- Returns how many items are in main beyond those that were enqueued or adopted, and not removed. Returns nil
-- if failed is not a set.
local function unknown_in_main(q)
  local failed = redis.pcall('ZCARD', q.base .. 'failed')
  if type(failed) == 'table' then return nil end  -- claims go on there
  local totals, held = q.totals, busy_count(q) + redis.call('ZCARD', q.delayed) + failed
  local counts = redis.call('HMGET', q.stats, 'adopted', 'dropped', 'failed_removed', 'flushed')
  local removed = totals.done + (tonumber(counts[2]) or 0) + (tonumber(counts[3])
    or 0) + (tonumber(counts[4]) or 0)
  return count_in(q, '-') + q.client_items - (totals.enqueued + (tonumber(counts[1]) or 0) - removed - held)
end

-- A size that no item of a list of main exceeds; nil if there may be bare payloads.
local function largest_in(q, client)
  local unknown = q.largest > 0 and unknown_in_main(q)
  if not unknown or client == '-' and unknown ~= 0 then return nil end
  return q.largest
end
