-- The ring of clients that have items: a sorted set, client -> tag. The client with the lowest tag has the
-- next turn. A client that takes its turn, or enters the ring, gets the next tag after the highest.

-- The highest tag, or 0. Refuses the call if the key is of another type.
local function last_tag(q)
  q.last_tag = q.last_tag or number_in(redis.call('ZRANGE', q.clients, -1, -1, 'WITHSCORES')[2],
    -LAST_NUMBER, LAST_NUMBER)
  return q.last_tag
end

local function next_tag(q)
  q.last_tag = last_tag(q) + 1
  return q.last_tag
end
