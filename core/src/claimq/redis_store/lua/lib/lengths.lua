-- The lists of main: one for items without a client, one for each client, more where a queue has levels, and
-- the ring of clients that have items. length_of() reads (and so finds a key of another type) before the
-- first write; tail() and lib/head.lua's head() then write.
local function length_of(q, client)
  local lengths = q.lengths
  if not lengths then
    lengths = {}
    q.lengths = lengths
  end
  if not lengths[client] then
    lengths[client] = length_of_list(key_of(q, client)) + (q.has_levels and in_levels(q, client) or 0)
    -- Whether heads has the client is checked for the first client of each call, and for every client of each
    -- sixteenth call.
    if client ~= '-' and (not q.last_tag or q.seq % 16 == 0) then
      last_tag(q)
      local is_known = redis.call('ZSCORE', q.heads, client)  -- or WRONGTYPE
      if not is_known and lengths[client] > 0 then q.unknown = q.unknown or {}; q.unknown[client] = true end
    end
  end
  return lengths[client]
end
