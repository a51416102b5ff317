-- Shortens items for lists that people look at.

-- Returns a function that returns an envelope. In place of one whose payload has more than `largest` bytes,
-- or than remain of `most` bytes for all payloads, it returns {header ("" for a bare payload), bytes of the
-- payload}. Without `largest` it shortens none.
local function new_outline(largest, most)
  largest, most = tonumber(largest), tonumber(most)
  return function(envelope)
    if not largest or not envelope then return envelope end
    local _, header = string.find(envelope, '^cq1[ !][!-~]+ %d+ [!-~]+ [^\n]+\n')
    local size = #envelope - (header or 0)
    if size > math.min(largest, most) then return {string.sub(envelope, 1, header or 0), whole(size)} end
    most = most - size
    return envelope
  end
end
