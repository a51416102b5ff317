-- The client in the header of an envelope; "-" for an item without one and for a bare payload.
local function client_of(envelope)
  return string.match(envelope, '^cq1[ !][!-~]+ %d+ ([!-~]+) ') or '-'
end
