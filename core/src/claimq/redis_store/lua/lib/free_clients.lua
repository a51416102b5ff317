-- Counts that claims end (lib/count_ends.lua), and gives the clients that may start an item again their turns
-- back.
local function free_clients(q, busy, tokens)
  -- include count_ends return_turns
  if return_turns(q, count_ends(q, busy, tokens)) > 0 then leave_wake_token(q) end
end
