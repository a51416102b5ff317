-- Counts bytes that this call has read. Returns whether there is room for more.
local function has_room(q, bytes)
  q.bytes = (q.bytes or 0) + bytes
  return q.bytes < CALL_BYTES
end
