-- Reads what a call must know before an item enters main again.
local function expect_entry(q, item)
  length_of(q, item.client)
  local level = level_of(item.meta)
  if level then check_level(q, item.client, level) end
end
