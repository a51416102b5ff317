-- So many envelopes are read at once whose sizes are not known for certain: another client may have put
-- anything among them.
local MOST_NEAR = 8

-- Reads up to `want` envelopes, as long as there is room. fetch(skip, count) returns the next envelopes, and
-- the bytes that they take beside their size. It asks for one envelope, then for two, four and at most
-- MOST_NEAR, and for no more than fit if none takes more than the largest of the queue and of those so far.
-- With `largest`, which no envelope exceeds, the first fetch asks for as many as fit too, at most `most`.
local function read_within(q, want, fetch, largest, most)
  local got, found, room = {}, largest, has_room(q, 0)
  while #got < want and room do
    local before, taken = #got, q.bytes
    local fitting = found and math.floor((CALL_BYTES - taken) / found) or 1
    local near = largest and (most or MOST_NEAR) or math.min(before + 1, MOST_NEAR)
    local asked = math.min(want - before, math.max(1, math.min(fitting, near)))
    local page, bytes = fetch(before, asked)
    found, bytes = found or q.largest, bytes or 0
    for i = 1, #page do
      local size = #page[i]
      got[before + i], bytes = page[i], bytes + size
      if size > found then found = size end
    end
    room = has_room(q, bytes)
    found = math.max(found, math.ceil((q.bytes - taken) / math.max(#page, 1)))
    if #page < asked then break end
  end
  return got
end
