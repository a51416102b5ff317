-- Which clients have the items in progress, and which wait, as a sample. Reads only.
local SAMPLE, LEAST = 64, 10

-- Tokens of up to SAMPLE items in progress, spread over all of them: by the golden ratio, so that claims of
-- clients in turn are not all of one client.
local function sample_tokens(q, held)
  if held <= SAMPLE then return redis.call('ZRANGE', q.leases, '0', whole(held - 1)) end
  local tokens = {}
  for i = 0, SAMPLE - 1 do
    local at = math.floor((i + i * 0.618034 % 1) * held / SAMPLE)
    tokens[#tokens + 1] = redis.call('ZRANGE', q.leases, whole(at), whole(at))[1]
  end
  return tokens
end

-- How many clients have turns; then for each client of the sample, and the SAMPLE clients whose turns are
-- next: name, number of its items in progress in the sample, how long these have been so (ms), when the
-- oldest of its items that wait for its turn was enqueued (ms; "": none does), weight. Empty where an item
-- has had more than CALL_BYTES, or the sample would have fewer than LEAST items for their size.
local function neighbours(q, held)
  -- include tags client_of share_numbers
  if q.largest > CALL_BYTES then return {} end
  local tokens, bytes = sample_tokens(q, held), 0
  for i = 1, q.largest * LEAST > CALL_BYTES and math.min(LEAST, #tokens) - 1 or 0 do
    local busy = q.base .. 'busy:' .. (string.match(tokens[i], '^(.*)/') or '')
    bytes = bytes + redis.call('HSTRLEN', busy, tokens[i])
  end
  if bytes >= CALL_BYTES then return {} end
  local counts, seconds, names = {}, {}, {}
  local function add(name, count, took)
    if not counts[name] then counts[name], seconds[name], names[#names + 1] = 0, 0, name end
    counts[name], seconds[name] = counts[name] + count, seconds[name] + took
  end
  for _, token in ipairs(tokens) do
    local worker, number = string.match(token, '^(.*)/(%d+)%.[^/]*$')
    local envelope = worker and redis.call('HGET', q.base .. 'busy:' .. worker, token)
    if envelope then
      local name, claimed_at = client_of(envelope), math.floor(number_in(number, 0, LAST_NUMBER) / 1000)
      add(#name > 128 and '-' or name, 1, math.max(0, q.now - claimed_at))
      if not has_room(q, #envelope) then break end
    end
  end
  for _, name in ipairs(redis.call('ZRANGE', q.clients, '-inf', '(' .. whole(PARKED), 'BYSCORE', 'LIMIT', 0,
    whole(SAMPLE))) do add(name, 0, 0) end
  local in_main = count_in(q, '-')
  if in_main > 0 then add('-', 0, 0) end  -- a claim adds it to the ring
  if #names == 0 then return {} end
  local shares = q.turns and redis.pcall('HMGET', q.base .. 'shares', unpack(names)) or {}
  read_last(q)
  local waiting, reply = turns(q), {0}
  local tags = redis.call('ZMSCORE', q.clients, unpack(names))
  local heads = redis.call('ZMSCORE', q.base .. 'heads', unpack(names))
  for i, name in ipairs(names) do
    local has_turn, since = tags[i] and tonumber(tags[i]) < PARKED, heads[i]
    if name == '-' then
      if in_main > 0 and not has_turn then waiting = waiting + 1 end
      has_turn, since = in_main > 0, enqueued_at(oldest_of(q, '-') or '')
    end
    local weight = select(5, share_numbers(shares[i])) or 1
    local n = #reply
    reply[n + 1], reply[n + 2], reply[n + 3] = name, counts[name], whole(seconds[name])
    reply[n + 4], reply[n + 5] = has_turn and since or '', format_text('%.17g', weight)
  end
  reply[1] = waiting
  return reply
end
