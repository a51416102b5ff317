-- The hash `turns` has the clients of the items of a claim call, under its nonce: "FIRST COUNT", client and
-- number of its items for each, and behind a line break three digits for each item: which of the clients.

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
  local order, codes, names, counts = q.order, {}, {}, {}
  for i = 1, #order do
    local name = order[i]
    local code = counts[name]
    if code then code[2] = code[2] + 1
    else
      names[#names + 1] = name
      code = {format_text('%03d', #names), 1}
      counts[name] = code
    end
    codes[i] = code[1]
  end
  for i, name in ipairs(names) do names[i] = name .. format_text(' %d', counts[name][2]) end
  local text = format_text('%d %d ', q.first, #order) .. table.concat(names, ' ') .. '\n'
  if #names > 1 then text = text .. table.concat(codes) end
  redis.pcall('HSET', q.base .. 'turns', nonce, text)
end
