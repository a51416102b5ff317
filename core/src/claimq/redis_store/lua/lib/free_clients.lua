-- Counts that claims end (lib/count_ends.lua), and gives the clients that may start an item again their turns
-- back.
local function free_clients(q, busy, tokens)
  -- include tags entry_tags count_ends
  local names, back = count_ends(q, busy, tokens), {}
  local scores = #names > 0 and redis.call('ZMSCORE', q.clients, unpack(names))
  for i, name in ipairs(names) do
    if scores[i] and tonumber(scores[i]) >= PARKED then back[#back + 1] = name end
  end
  if #back > 0 then redis.call('ZADD', q.clients, unpack(entry_tags(q, back))) end
  if #names > 0 then leave_wake_token(q) end
end
