-- Tags of clients that enter the ring.

-- By processing time, a client enters where the last turn was, or at its own tag if it still owes. Among
-- those that owe nothing the one that comes first has the first turn.
local function tags_by_time(q, clients)
  -- include shares
  local words, turn = {}, turn_of(q)
  read_shares(q, clients)
  for i, client in ipairs(clients) do
    local share = q.shares[client]
    turn.at = math.min(turn.at + 1, PARKED - 1)
    words[2 * i - 1] = whole(share.base and math.max(turn.at, tag_of(q, share)) or turn.at)
    words[2 * i] = client
  end
  return words
end

-- The tags of clients that enter the ring, each before its client.
local function entry_tags(q, clients)
  if q.turns then return tags_by_time(q, clients) end
  local words = {}
  for i, client in ipairs(clients) do words[2 * i - 1], words[2 * i] = whole(next_tag(q)), client end
  return words
end
