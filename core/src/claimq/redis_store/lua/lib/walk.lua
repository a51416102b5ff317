-- A bounded walk over several lists and sets.
-- Looks at places of lists and sets in turn, those after the first `from` of all: at most 2,000 and as long as there is room. Each call of
-- the returned function adds `total` places, of which read(i) reads the one at i (from 0) and returns its bytes. walk.at is how far it got.
local function walk_from(q, from)
  local walk, added = {at = from}, 0
  return walk, function(total, read)
    for i = math.max(walk.at - added, 0), total - 1 do
      if walk.at - from >= 2000 or not has_room(q, 0) then break end
      has_room(q, read(i))
      walk.at = walk.at + 1
    end
    added = added + total
    walk.more = walk.at < added and 1 or 0
  end
end
