-- Gives those of the clients that are parked (lib/park.lua) their turns back: the next claim looks at them. A
-- ring of another type has none. Returns how many were parked.
local function return_turns(q, names)
  -- include slices tags entry_tags
  local scores, back = #names > 0 and redis.pcall('ZMSCORE', q.clients, unpack(names)) or {}, {}
  for i, name in ipairs(names) do
    if tonumber(scores[i] or 0) >= PARKED then back[#back + 1] = name end
  end
  sliced(entry_tags(q, back), function(...) redis.call('ZADD', q.clients, ...) end)
  return #back
end
