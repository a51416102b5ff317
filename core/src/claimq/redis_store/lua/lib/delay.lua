-- Puts items into delayed, and counts how many of each client are in it.

-- Notes items of a client that enter or leave delayed; close() writes the counts. Those without one ("-") are
-- not counted.
local function count_delayed(q, client, more)
  if client == '-' then return end
  q.more_delayed = q.more_delayed or {}
  q.more_delayed[client] = (q.more_delayed[client] or 0) + more
end

-- Puts an item of a client into delayed with this score, as text.
local function enter_delayed(q, score, envelope, client)
  note_size(q, #envelope)
  local added = redis.call('ZADD', q.delayed, score, envelope)
  count_delayed(q, client, added)
  if q.weighs and added == 1 then weigh(q, DELAYED, {envelope}, 1) end
end

-- Delays an item of a client until an instant in ms. What one call delays to one instant stays in its order:
-- the score's fraction counts it.
local function put_delayed(q, due, envelope, client)
  q.put = math.min((q.put or -1) + 1, 1023)
  enter_delayed(q, fraction(due + q.put / 1024), envelope, client)
end
