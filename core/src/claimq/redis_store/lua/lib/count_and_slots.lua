-- How many items a claim wants, and how many slots the worker has ("": it does not say), from "COUNT SLOTS".
local function count_and_slots(text)
  local count, slots = string.match(text, '^(%d+) ?(%d*)$')
  return count_of(count or text, 1), slots
end
