-- Calls fn(element...) for slices of a list that fit on the stack of Lua.
local function sliced(list, fn)
  for from = 1, #list, 1000 do fn(unpack(list, from, math.min(from + 999, #list))) end
end
