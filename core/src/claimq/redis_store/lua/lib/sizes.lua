-- Notes the size of an item that is stored or claimed. The largest of all says when a call may free or read
-- too much.
local function note_size(q, bytes)
  if bytes > q.largest then q.largest, q.has_grown = bytes, true end
end

-- Counts the bytes of envelopes that enter (more: 1) or leave (-1) main or delayed (lib/weights.lua), where
-- q.weighs says so. close() writes them.
local MAIN, DELAYED = 1, 3
local function weigh(q, place, envelopes, more)
  -- include weights
  add_weights(q, place, envelopes, more)
end
