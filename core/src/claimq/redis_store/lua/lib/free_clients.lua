-- Counts that claims end (lib/count_ends.lua), and gives the clients that may start an item again their turns
-- back.
local function free_clients(q, busy, tokens)
  -- include tags count_ends
  local names = count_ends(q, busy, tokens)
  local scores = #names > 0 and redis.call('ZMSCORE', q.clients, unpack(names))
  for i, name in ipairs(names) do
    if scores[i] and tonumber(scores[i]) >= PARKED then
      redis.call('ZADD', q.clients, whole(next_tag(q)), name)
    end
  end
  if #names > 0 then leave_wake_token(q) end
end
