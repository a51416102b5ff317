-- Walks over places of lists and sets in turn, after the first `from` of all: at most 2,000, as long as there
-- is room. Each call of the returned function adds `total` places; read(i) reads place i (from 0) and returns
-- its bytes. walk.at is the place where the walk ended.
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
