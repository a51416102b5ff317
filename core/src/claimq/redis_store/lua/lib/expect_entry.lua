-- Reads what a call must know before an item enters main again.
local function expect_entry(q, item)
  length_of(q, item.client)
  local priority = priority_of(item.meta)
  if priority then check_level(q, item.client, priority) end
end
