-- The log of items that were removed without having been done and without a caller that was given them: a
-- list, newest left, of "AT REASON SIZE ENVELOPE". It keeps the last 1,000, of each the header without its
-- history, 500 bytes of the error, and 1,000 bytes of the payload (SIZE has all of them): about 5 KB an item
-- at most. Reasons: on_expiry, on_failure, max_items, policy.
local REMOVED_ITEMS, REMOVED_ERROR, REMOVED_PAYLOAD = 1000, 500, 1000

local function note_removed(q, item, reason)
  local meta = {}
  for _, name in ipairs(NUMBERS) do meta[name] = item.meta[name] end
  if item.meta.error then meta.error = string.sub(item.meta.error, 1, REMOVED_ERROR) end
  local short = {id = string.sub(item.id, 1, 200), at = item.at, client = string.sub(item.client, 1, 128),
    meta = meta,
                 payload = string.sub(item.payload, 1, REMOVED_PAYLOAD)}
  q.removals = q.removals or {}
  q.removals[#q.removals + 1] = whole(q.now) .. ' ' .. reason .. ' ' .. whole(item.size or #item.payload)
    .. ' ' .. format(short)
end

local function write_removed(q)
  sliced(q.removals, function(...) redis.call('LPUSH', q.base .. 'removed', ...) end)
  redis.call('LTRIM', q.base .. 'removed', 0, REMOVED_ITEMS - 1)
end
