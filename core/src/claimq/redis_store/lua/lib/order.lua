-- The hash `turns` has the clients of the items of a claim call, under its nonce: "FIRST COUNT WIDTH", a line
-- break, WIDTH digits for each item, and a text with a space, the name and the number of items of each
-- client. The digits say at which byte of the text the client of the item stands. For a single client WIDTH
-- is 0.

-- Corrects what the call has counted: `envelopes` are handed out, and not all that it took.
local function recount_order(q, envelopes)
  -- include shares client_of
  local order = {}
  for _, name in ipairs(q.order) do q.shares[name].count = math.max(0, q.shares[name].count - 1) end
  for i, envelope in ipairs(envelopes) do order[i] = client_of(envelope) end
  read_shares(q, order)
  for _, name in ipairs(order) do
    local share = q.shares[name]
    share.base, share.is_changed = share.base or turn_of(q).at, true
    share.count = share.count + 1
  end
  q.order = order
end

local function write_order(q, nonce)
  local order, counts, places, names, words, bytes = q.order, {}, {}, {}, {}, 0
  for i = 1, #order do
    local name = order[i]
    if not counts[name] then counts[name], names[#names + 1] = 0, name end
    counts[name] = counts[name] + 1
  end
  for i = 1, #names do
    local name = names[i]
    words[i] = ' ' .. name .. ' ' .. counts[name]
    places[name], bytes = bytes, bytes + #words[i]
  end
  local width = #names > 1 and #whole(bytes) or 0
  local text = {format_text('%d %d %d\n', q.first, #order, width)}
  if width > 0 then
    for i = 1, #order do order[i] = places[order[i]] end
    text[2] = format_text(string.rep('%0' .. width .. 'd', #order), unpack(order))
  end
  redis.pcall('HSET', q.base .. 'turns', nonce, table.concat(text) .. table.concat(words))
end
