-- The queue's clock, which goes on where the server's has gone back.

-- The share of each second by which an offset shrinks, until it is 0 (docs/decisions/clock-and-ages.md).
local SLEW = 0.1

-- Sets the queue's clock from the server's, which q.now has. An offset has parts of a millisecond while it
-- shrinks.
local function read_clock(q)
  local of_server = q.now
  q.now = math.floor(of_server + q.offset)
  -- The queue's clock is ahead of the server's: it loses that slowly.
  if q.offset > 0 and q.seen_at > 0 and q.now > q.seen_at then
    q.offset = math.max(0, q.offset - (q.now - q.seen_at) * SLEW)
    q.now = math.floor(of_server + q.offset)
  end
  -- The clock went back: go on from the last instant seen, so that no lease lasts longer.
  if q.now < q.seen_at then
    q.offset, q.now, q.stepped = q.offset + q.seen_at - q.now, q.seen_at, true
  end
end
