-- The place of an item that goes back to the head of its list: the number of its first claim since it entered
-- the tail, or the one that it would have had when it was held. Places grow along a client's list; items
-- behind them were not claimed since they entered it, and have none (nil).
local function place_of(envelope)
  local _, meta_at = string.find(envelope, '^cq1[ !]%S+ %d+ %S+ ')
  local header = string.sub(envelope, 1, meta_at and string.find(envelope, '\n', meta_at, true) or 0)
  local _, place_at = string.find(header, '"place":"', meta_at or 1, true)
  return place_at and tonumber(string.match(header, '^(%d+)"', place_at + 1))
end
