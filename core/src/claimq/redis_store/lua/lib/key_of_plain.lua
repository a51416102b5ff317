-- The key of an item that has nothing else in its header, like most that have one: then nothing there needs
-- to be checked.
local function key_of_plain(envelope)
  local from, to, ends, key = string.match(envelope,
    '^cq1 [!-~]+ ()%d+() [!-~]+() {"options":{"key":"([!-~]+)"}}\n')
  local is_valid = key and from <= 206 and to - from <= 13 and ends - to <= 129 and #key <= ITEM_KEY
  return is_valid and not string.find(key, '["\\]') and key or nil
end
