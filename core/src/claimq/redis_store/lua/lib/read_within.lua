-- Bounded reads.
-- Up to want envelopes, for as long as there is room. fetch(skip, count) reads the next ones, and returns in bytes what they take beside their size. It
-- reads as many as fit if none exceeds `largest`, but not more than `most`, and two at a time where two like the largest so far fit.
local function read_within(q, want, fetch, largest, most)
  local got, found, room = {}, CALL_BYTES, has_room(q, 0)
  while #got < want and room do
    local before, fitting = #got, q.bytes + 2 * found <= CALL_BYTES and 2 or 1
    if largest then fitting = math.max(fitting, math.min(most, math.floor((CALL_BYTES - q.bytes) / largest))) end
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
