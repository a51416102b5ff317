-- Returns a function that says whether a stored item has this id.
local function new_id_check(id)
  local plain, marked = 'cq1 ' .. id .. ' ', 'cq1!' .. id .. ' '
  return function(envelope)
    local start = string.sub(envelope, 1, #plain)
    return start == plain or start == marked
  end
end
