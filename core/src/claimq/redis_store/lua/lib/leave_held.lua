-- Removes what held has for the item of this place; returns whether it had a gate.
local function leave_held(q, key, place)
  local held, entry = q.base .. 'held', held_entry(key, place)
  local gates = redis.call('ZRANGE', held, '[' .. entry .. ' ', '(' .. entry .. '!', 'BYLEX')
  redis.call('ZREM', held, entry, unpack(gates))
  return #gates > 0
end
