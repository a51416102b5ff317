-- Writes the keys that the items of this call have taken. holding: their tokens, each before its envelope.
local function write_keys(q, holding)
  local words = {}
  for key, position in pairs(q.keys) do
    local token = position and holding[2 * position - 1]
    if token then words[#words + 1], words[#words + 2] = key, q.others and q.others .. token or token end
  end
  sliced(words, function(...) redis.call('HSET', q.base .. 'keys', ...) end)
end
