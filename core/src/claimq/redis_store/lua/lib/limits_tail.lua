-- What the field `limits` of stats has behind its levels (lib/park.lua): the band, "+", "=WORKER", the number
-- of the first claim, and the limits; nil without it.
local function read_tail(q)
  return string.match(q.limits or '', '|([01])(%+?)(=?%S*) (%d+) (.*)$')
end
