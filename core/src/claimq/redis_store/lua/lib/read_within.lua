-- Reads up to `want` envelopes, as long as there is room. fetch(skip, count) returns the next envelopes, and
-- the bytes that they take beside their size. One fetch asks for two envelopes if two as large as the largest
-- so far fit, else for one. With `largest`, which no envelope exceeds, it asks for as many as fit, at most
-- `most`.
local function read_within(q, want, fetch, largest, most)
  local got, found, room = {}, CALL_BYTES, has_room(q, 0)
  while #got < want and room do
    local before, fitting = #got, q.bytes + 2 * found <= CALL_BYTES and 2 or 1
    if largest then
      fitting = math.max(fitting, math.min(most, math.floor((CALL_BYTES - q.bytes) / largest)))
    end
    local asked = math.min(want - before, fitting)
    local page, bytes = fetch(before, asked)
    bytes = bytes or 0
    if before == 0 and page[1] then found = #page[1] end
    for i = 1, #page do
      local size = #page[i]
      got[before + i], bytes = page[i], bytes + size
      if size > found then found = size end
    end
    room = has_room(q, bytes)
    if #page < asked then break end
  end
  return got
end
