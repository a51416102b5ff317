-- What the field `limits` of stats has before its levels (lib/park.lua).
local function bands_of(q)
  return string.match(q.limits or '', '^.(|[^\n]*\n)') or ''
end

-- Its parts: the band, "+", "=WORKER", the number of the first claim, and the limits; nil without it.
local function read_bands(q)
  return string.match(q.limits or '', '^.|([01])(%+?)(=?%S*) (%d+) ([^\n]*)\n')
end
