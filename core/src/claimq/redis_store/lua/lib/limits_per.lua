-- Those of the limits that each client, or each key, has, as text. lib/park.lua counts what the items of the
-- queue cost too, so a bound on that is among those of clients.
local function limits_per(text, scope)
  local texts = {}
  for limit in string.gmatch(text, '[^;]+') do
    if string.find(limit, ' ' .. scope .. ' ', 1, true)
      or scope == 'client' and string.find(limit, ' queue busy %d+ cost') then
      texts[#texts + 1] = limit
    end
  end
  return table.concat(texts, ';')
end
