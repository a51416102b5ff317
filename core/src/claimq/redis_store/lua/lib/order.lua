-- The hash `turns` has the clients of the items of a claim call, under its nonce: "FIRST COUNT", client and
-- number of its items for each, and behind a line break three digits for each item: which of the clients.
-- There are no digits for a single client, nor where each item has a client of its own, in that order.

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
  local order, codes, places, words = q.order, {}, {}, {}
  for i = 1, #order do
    local name = order[i]
    local place = places[name]
    if not place then
      place = #words / 2 + 1
      places[name], words[2 * place - 1], words[2 * place] = place, name, 0
    end
    words[2 * place], codes[i] = words[2 * place] + 1, place
  end
  local text = format_text('%d %d ', q.first, #order) .. table.concat(words, ' ') .. '\n'
  if #words > 2 and #words < 2 * #order then
    text = text .. format_text(string.rep('%03d', #order), unpack(codes))
  end
  redis.pcall('HSET', q.base .. 'turns', nonce, text)
end
