-- After `count` items left a client's list: corrects its place in the ring and the age of its oldest item.
local function settle_client(q, client, count)
  q.more_client_items = (q.more_client_items or 0) - count
  q.client_items = q.client_items - count
  local oldest = oldest_of(q, client)
  if oldest then redis.call('ZADD', q.heads, enqueued_at(oldest) or whole(q.now), client)
  else forget(q, {client}) end
  return oldest
end
