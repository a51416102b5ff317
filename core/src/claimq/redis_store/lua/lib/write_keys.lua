-- Writes the keys that the items of this call have taken. holding: their tokens, each before its envelope.
local function write_keys(q, holding)
  local words, texts = {}, q.others or {}
  for i = 1, #q.takers, 3 do
    local key, token, cost = q.takers[i], holding[2 * q.takers[i + 1] - 1], q.takers[i + 2]
    if token then
      if cost > 1 then token = token .. ' ' .. whole(cost) end
      texts[key] = texts[key] and texts[key] .. ' ' .. token or token
      words[#words + 1], words[#words + 2] = key, texts[key]
    end
  end
  sliced(words, function(...) redis.call('HSET', q.base .. 'keys', ...) end)
end
