-- Returns the item of a client that has waited longest, of those at the heads of its lists; nil if there is
-- none. The items that it reads count as bytes of this call. A key of another type counts as empty, since
-- this may come after a write.
local function oldest_of(q, client)
  local oldest, since
  for _, list in ipairs(lists_of(q, client)) do
    local envelope = redis.pcall('LINDEX', list, '-1')
    if type(envelope) == 'string' then
      local at = tonumber(enqueued_at(envelope)) or math.huge  -- a bare payload has no instant
      if not since or at < since then oldest, since = envelope, at end
      has_room(q, #envelope)
    end
  end
  return oldest
end
