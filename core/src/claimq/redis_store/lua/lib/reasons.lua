-- Counts failed items by their reasons, in a hash: reason -> count, for at most 200 reasons at a time. Items
-- with others count as OTHER. The header of each failed item names the reason under which it is counted
-- (meta.reason), so every way out of failed subtracts what the way in has added.
local REASONS, OTHER = 200, '(other)'

local function count_in_hash(text) return number_in(text, 0, LAST_NUMBER) end

-- Adds to the count of a reason, for write_reasons().
local function count_reason(q, reason, more)
  if not reason then return end  -- another client has put the item there
  q.reasons = q.reasons or {}
  q.reasons[reason] = (q.reasons[reason] or 0) + more
end

-- Counts an item that goes to failed, and notes its reason in it.
local function enter_reason(q, item, reason)
  local key = q.base .. 'failed:reasons'
  if not (q.reasons and q.reasons[reason]) and redis.call('HEXISTS', key, reason) == 0 then
    local room = REASONS - redis.call('HLEN', key) + redis.call('HEXISTS', key, OTHER)
    q.new_reasons = (q.new_reasons or 0) + 1
    if q.new_reasons > room then reason = OTHER end
  end
  item.meta.reason = reason
  count_reason(q, reason, 1)
end

-- A count that is lost never becomes negative: what is missing is shown as unknown.
local function write_reasons(q)
  local key = q.base .. 'failed:reasons'
  for reason, more in pairs(q.reasons or {}) do
    local count = count_in_hash(redis.call('HGET', key, reason)) + more
    if count > 0 then redis.call('HSET', key, reason, whole(count)) else redis.call('HDEL', key, reason) end
  end
end

-- The reason in the header of a failed item. A reason has no quotation marks and no backslashes.
local function reason_in(envelope)
  local _, at = string.find(envelope or '', '"reason":"', 1, true)
  if not at or string.find(string.sub(envelope, 1, at), '\n', 1, true) then return nil end
  return (string.gsub(string.match(envelope, '^[^"]*', at + 1), '\\/', '/'))
end
