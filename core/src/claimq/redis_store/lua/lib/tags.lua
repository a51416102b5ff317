-- The ring of clients that have items: a sorted set, client -> tag. The client with the lowest tag has the
-- next turn. By count, a client that takes its turn, or enters the ring, gets the next tag after the highest.
-- By processing time its tag is the time that it has had (lib/shares.lua). A client that may start nothing
-- now is parked: its score is PARKED and more (lib/park.lua), and it has no turn.

-- Reads the last client of the ring, parked or not. Refuses the call if the key is of another type.
local function read_last(q)
  local last = redis.call('ZRANGE', q.clients, '-1', '-1', 'WITHSCORES')
  local tag = number_in(last[2], -LAST_NUMBER, LAST_NUMBER)
  q.has_parked = tag >= PARKED
  if q.has_parked then
    tag = number_in(redis.call('ZRANGE', q.clients, '(' .. whole(PARKED), '-inf', 'BYSCORE', 'REV', 'LIMIT',
      '0', '1', 'WITHSCORES')[2], -LAST_NUMBER, LAST_NUMBER)
  end
  q.last_tag = q.last_tag or tag
  return last[1]
end

-- The highest tag, or 0.
local function last_tag(q)
  if not q.last_tag then read_last(q) end
  return q.last_tag
end

local function next_tag(q)
  q.last_tag = last_tag(q) + 1
  return q.last_tag
end

-- How many clients have turns. last_tag() or read_last() comes first.
local function turns(q)
  local clients = redis.call('ZCARD', q.clients)
  return q.has_parked and clients - redis.call('ZCOUNT', q.clients, whole(PARKED), '+inf') or clients
end
