-- The bytes that wait, where the policy bounds them. The field `bound` of stats is then "ITEMS BYTES ITEMS
-- BYTES FROM MEAN": the items and bytes in main, then those in delayed. The key `bytes` has the same four
-- numbers for each client. An item is counted if the instant in its header is FROM or later, which never
-- changes while it waits. Items that waited when the bound was set, and bare payloads, have MEAN bytes.
-- (docs/decisions/waiting-items.md)
local function read_weights(text)
  local numbers = {}
  for number in string.gmatch(type(text) == 'string' and text or '', '%d+') do
    numbers[#numbers + 1] = number_in(number, 0, LAST_NUMBER)
  end
  for i = #numbers + 1, 6 do numbers[i] = 0 end
  return numbers
end

local function weights_of(q)
  if not q.weights then
    local all = read_weights(q.bound)
    q.weights = {all = all, from = all[5], mean = all[6], clients = {}}
  end
  return q.weights
end

-- Adds or subtracts (more: 1 or -1) envelopes that enter or leave a place: 1 is main, 3 is delayed.
local function add_weights(q, place, envelopes, more)
  local weights = weights_of(q)
  for _, envelope in ipairs(envelopes) do
    local at, client = string.match(envelope, '^cq1[ !][!-~]+ (%d+) ([!-~]+) [^\n]+\n')
    if at and #at <= 13 and tonumber(at) >= weights.from then
      local counts = weights.clients[client] or {0, 0, 0, 0}
      weights.clients[client] = counts
      for _, numbers in ipairs({weights.all, counts}) do
        numbers[place] = numbers[place] + more
        numbers[place + 1] = numbers[place + 1] + more * #envelope
      end
    end
  end
end

-- The four numbers as they are stored, after a change (nil: none). None falls below 0.
local function weights_text(counts, change)
  local texts = {}
  for i = 1, 4 do texts[i] = whole(math.max(0, counts[i] + (change and change[i] or 0))) end
  return table.concat(texts, ' ')
end
