-- When a rate lets an item of this cost start, after `started` units more; nil: now.
local function wait_of(rate, started, cost)
  local units = units_of(rate, cost)
  return free_of(rate, started) < units and start_of(rate, started, units) or nil
end
