-- Notes the ends of claims for the shares of their clients. Claims that were made while a client had the
-- queue for itself have no entry in `turns`, and count nothing.

-- Returns a function that notes the end of claims (tokens, distinct), and one that close() calls.
local function new_turn_ends(q)
  -- include slices shares reserve
  local entries, counts, times, names = {}, {}, {}, {}
  local function add(name, count, took)
    if not counts[name] then counts[name], times[name], names[#names + 1] = 0, 0, name end
    counts[name], times[name] = counts[name] + count, times[name] + took
  end
  local function entry_of(nonce)
    if entries[nonce] == nil then
      local text = redis.pcall('HGET', q.base .. 'turns', nonce)
      local first, count, width, at = string.match(type(text) == 'string' and text or '',
        '^(%d+) (%d+) (%d)\n()')
      first, count = number_in(first, 1, LAST_NUMBER), number_in(count, 1, CALL_ITEMS)
      entries[nonce] = first > 0 and count > 0 and {first = first, count = count, width = tonumber(width),
        text = text, at = at, clients_at = at + count * width,
        took = math.max(0, q.now - math.floor(first / 1000))} or false
    end
    return entries[nonce]
  end
  local function is_whole(entry, nonce, tokens)
    if entry.count ~= #tokens then return false end
    for i = 2, #tokens do
      if not string.find(tokens[i], nonce, 1, true) then return false end
    end
    return true
  end
  local function add_one(entry, number)
    local at = entry.at + entry.width * (number - entry.first)
    local place = tonumber(string.sub(entry.text, at, at + entry.width - 1)) or 0
    local name = string.match(entry.text, '^ (%S+) %d', entry.clients_at + place)
    if name then add(name, 1, entry.took) end
  end

  local function note(tokens)
    local at, nonce = string.match(tokens[1] or '', '^.*/()%d+%.([^/]*)$')
    local entry = nonce and entry_of(nonce)
    if entry and is_whole(entry, nonce, tokens) then
      for name, count in string.gmatch(string.sub(entry.text, entry.clients_at), ' (%S+) (%d+)') do
        count = tonumber(count)
        add(name, count, count * entry.took)
      end
      return
    end
    for i = 1, #tokens do
      local number, nonce = string.match(tokens[i], '^(%d+)%.([^/]*)$', at)
      entry = nonce and entry_of(nonce)
      if entry then add_one(entry, tonumber(number)) end
    end
  end

  -- Writes the time that the ended items took into the shares. A client of the ring that owes time goes
  -- behind others at once, so that claims find clients that have a turn.
  local function settle_turns()
    local turn, later = turn_of(q), {}
    local rate = (q.reserve or read_reserve(q)).rate
    read_shares(q, names)
    for _, name in ipairs(names) do
      local share, count, took = q.shares[name], counts[name], times[name]
      if share.base then
        took = q.unused and 0 or UNIT * math.max(took, count)
        share.base, share.count = share.base + took / share.weight, math.max(0, share.count - count)
        if not q.unused then
          local mean, kept = took / count, (1 - LEAST) ^ count
          if rate > 0 then  -- forgotten in time, however much a client has used
            local drained_in = took / UNIT / share.weight / rate
            share.drained_at = math.min(math.max(share.drained_at, q.now) + drained_in,
              q.now + QUIET_MS + BURST * drained_in)
          end
          share.mean = share.mean > 0 and mean + (share.mean - mean) * kept or mean
          turn.mean = turn.mean > 0 and mean + (turn.mean - mean) * kept or mean
        end
        share.is_changed = true
        local tag = tag_of(q, share)
        if tag > share.tag then
          later[#later + 1], later[#later + 2], share.tag = whole(tag), name, tag
        end
      end
    end
    sliced(later, function(...) redis.pcall('ZADD', q.clients, 'XX', 'GT', ...) end)
  end
  return note, settle_turns
end

local function end_turns(q, tokens)
  if not q.turns then return end
  if not q.note_ends then q.note_ends, q.settle_turns = new_turn_ends(q) end
  q.note_ends(tokens)
end
