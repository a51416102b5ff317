-- The oldest item of a client.
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
