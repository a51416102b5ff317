-- The item of an id at the place where it was found, or near it, and its place; nil if it has moved on.
local NEAR = 100
local function found_near(q, id, state, client, position)
  local is_it = new_id_check(id)
  local function at(from, count)
    for i, envelope in ipairs(read_waiting(q, state, client, from, count)) do
      if is_it(envelope) then return envelope, from + i - 1 end
    end
  end
  local envelope, place = at(position, 1)
  if envelope then return envelope, place end
  return at(math.max(position - NEAR, 0), 2 * NEAR)
end
