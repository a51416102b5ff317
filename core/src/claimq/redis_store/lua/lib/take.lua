-- Takes up to want items from main. Sets q.adopted (bare payloads given a header), q.past (items that it
-- moved to failed), q.waiting (how many it delayed for their keys), q.left (what still waits, roughly) and
-- q.stopped (there may be more at once).
local PAST_DEADLINE = 'its deadline passed before it was started'
local function is_alone(envelope) return string.sub(envelope, 1, 4) == 'cq1!' end

-- The header of an item that has counters or a history takes as long to check as four items without. So a
-- call claims at most 250 such items.
local META_WEIGHT = 4

-- Counts an item with so many header_bytes(); whether the call has enough.
local function has_enough(q, of_header)
  q.weight = (q.weight or 0) + (of_header > 0 and META_WEIGHT or 1)
  return q.weight >= CALL_ITEMS
end

-- Notes the sizes, and gives bare payloads a header, so that everything behind main knows one form only.
-- Appends to `kept` the items to hand out: all but q.past, those that are late (unless
-- also_late), and those whose key is busy, which are held.
local function adopt(q, got, kept, also_late)
  -- include envelope place_of keys hold release key_of_plain
  local metas, keys, entries = {}, {}, nil
  for i, envelope in ipairs(got) do
    local meta, key, _ = false, q.has_keys and (q.key_of[envelope] or key_of_plain(envelope)), nil
    if not (key or is_plain(envelope)) then
      _, _, _, meta = read_header(envelope)
      key = q.has_keys and meta and meta.options and meta.options.key
    end
    metas[i], keys[i] = meta, key or NO_KEY
  end
  entries = q.has_keys and #got > 0 and redis.call('HMGET', q.base .. 'keys', unpack(keys)) or {}
  if q.has_keys then q.keys, q.takers = q.keys or {}, q.takers or {} end
  if q.key_rates then q.key_rates.look(keys) end
  q.adopted = q.adopted or 0
  for i, envelope in ipairs(got) do
    local meta, key = metas[i], keys[i]
    if meta and time_left(meta, q.now) <= 0 and not also_late then
      q.past = q.past or {}
      q.past[#q.past + 1] = envelope
    elseif key ~= NO_KEY
      and not take_key(q, key, entries[i], #kept + 1, envelope, meta and meta.options.cost or 1) then
      hold(q, key, envelope)
    else
      if meta == nil then
        q.adopted = q.adopted + 1
        if q.costs then q.costs.count('-', envelope, -1) end  -- it may look as if it had a cost
        envelope = format(parse(q, envelope, whole(q.first + #kept)))
        if q.costs then q.costs.count('-', envelope, 1) end
        got[i] = envelope
      end
      kept[#kept + 1] = envelope
    end
    note_size(q, #envelope)
  end
  if q.has_keys and q.has_keys ~= '1' then let_next_go(q, keys) end
  if q.overtaken then release(q, q.overtaken) end
  q.behind = nil  -- the call may go on with these
end

-- Moves q.past to failed, instead of handing them out. False where failed cannot be written: then they are
-- handed out, since they have left main already.
local function fail_past(q)
  -- include envelope removed shape reasons put_failed free_keys
  local is_ready = not refused_read(q.base)
  for _, size in ipairs({redis.pcall('ZCARD', q.base .. 'failed'),
    redis.pcall('HLEN', q.base .. 'failed:items'), redis.pcall('HLEN', q.base .. 'failed:reasons'),
    redis.pcall('LLEN', q.base .. 'removed')}) do
    is_ready = is_ready and type(size) == 'number'
  end
  if not is_ready then return false end
  q.counts = {failed = #q.past, past_deadline = #q.past}
  local policy = {max_failed = setting(redis.call('HGET', q.config, 'failed_max_items'), nil, 1, 1000000000)}
  local keys = {}
  for _, envelope in ipairs(q.past) do
    local item = parse(q, envelope, '0')
    item.meta.given_up, item.meta.error, item.meta.detail = (item.meta.given_up or 0) + 1, PAST_DEADLINE, nil
    remember(item, q.now, 'deadline', PAST_DEADLINE, '')
    put_failed(q, policy, item)
    local key = q.has_keys and item.meta.options.key
    if key then keys[#keys + 1] = key end
  end
  if q.removals then write_removed(q) end
  write_reasons(q)
  free_keys(q, keys, {})
  return true
end

-- How many of these a call claims: an item that has crashed a worker alone, no more headers than a call
-- checks, and no more than may start by their costs. The headers of the first `light` need no check.
local function claimable(q, client, got, light)
  local bytes = 0
  q.weight = light
  for i, envelope in ipairs(got) do
    bytes = bytes + #envelope
    local alone = i > light and is_alone(envelope)
    if alone and i > 1 or q.costs and not q.costs.take(client, envelope) then return i - 1 end
    if i > light then
      if alone then return 1 end
      local of_header = header_bytes(envelope)
      bytes = bytes + of_header
      if bytes >= CALL_BYTES or has_enough(q, of_header) then return i end
    end
  end
  return #got
end

-- How many of these, from the first on, need no check of their headers: these have nothing, or a key alone,
-- which is noted in q.key_of. One that is held takes twice as long, so it ends where a call has enough.
local function count_light(q, got)
  -- include key_of_plain
  local weight = 0
  for i, envelope in ipairs(got) do
    local key = key_of_plain(envelope)
    if not (key or is_plain(envelope)) then return i - 1 end
    q.key_of[envelope], weight = key, weight + (key and 2 or 1)
    if weight >= CALL_ITEMS then for j = #got, i + 1, -1 do got[j] = nil end end
  end
  return #got
end

-- From one list alone.
local function take_many(q, client, list, want)
  -- include read_within read_oldest
  local got = read_oldest(q, list, 0, want)
  local light = 0
  if q.bytes >= CALL_BYTES then light = 0  -- it read more than it may hand out
  elseif q.has_keys then
    light = count_light(q, got)
    q.are_plain = q.are_plain and next(q.key_of) == nil
  else while got[light + 1] and is_plain(got[light + 1]) do light = light + 1 end end
  if light < #got or q.costs then
    q.are_plain = q.are_plain and light == #got
    for i = #got, claimable(q, client, got, light) + 1, -1 do got[i] = nil end
  end
  if #got > 0 then redis.call('LTRIM', list, 0, -(#got + 1)) end
  return got
end

-- From one client alone, in a queue that has levels.
local function take_by_level(q, client, want)
  -- include levels_in_turn
  local key = q.base .. 'levels'
  local levels, wrong = read_levels(q, client, redis.call('HMGET', key, client)[1])
  if not levels then error(wrong) end
  local got = {}
  if #levels == 1 and want > 1 then return take_many(q, client, levels[1].list, want) end
  local count, before = levels.count, levels.count
  q.are_plain = false
  while #got < want do
    local list = next_list(levels)
    local first = q.costs and list and redis.call('LINDEX', list, '-1')
    if first and (#got > 0 and is_alone(first) or not q.costs.take(client, first)) then break end
    local envelope = list and redis.call('RPOP', list)
    if not envelope then break end
    local alone = is_alone(envelope)
    if alone and #got > 0 then
      redis.call('RPUSH', list, envelope)
      break
    end
    got[#got + 1], count = envelope, levels.count
    local of_header = header_bytes(envelope)
    local room = has_room(q, #envelope + of_header)
    if has_enough(q, of_header) or alone or not room then break end
  end
  if count ~= before then redis.call('HSET', key, client, whole(count)) end
  return got
end

local function take_list(q, client, want)
  if q.has_levels then return take_by_level(q, client, want) end
  local list = key_of(q, client)
  if want > 1 or q.costs then return take_many(q, client, list, want) end
  local envelope = redis.call('RPOP', list)
  if not envelope then return {} end
  q.are_plain = is_plain(envelope)
  return {envelope}
end

-- Takes items of the clients of the ring; in_main: how many there are without a client. Returns them, and how
-- many of those are left.
local function take_of_clients(q, want, ring, in_main)
  -- include in_turns
  return take_in_turns(q, want, ring, in_main)
end

local function take(q, want)
  q.key_of = {}
  local ring, in_main, got = redis.call('ZCARD', q.clients), q.in_main or redis.call('LLEN', q.main), nil
  q.in_main = nil
  if q.has_levels then in_main = in_main + in_levels(q, '-') end
  q.are_plain = true
  if ring == 0 and not (q.claimer and q.turns or q.park and q.park.is_counted) then
    got = in_main > 0 and take_list(q, '-', want) or {}
    in_main = in_main - #got
  else got, in_main = take_of_clients(q, want, ring, in_main) end
  if q.weighs then weigh_out(q, MAIN, got) end
  if not q.are_plain then
    local kept = {}
    adopt(q, got, kept)
    if q.past and not fail_past(q) then
      adopt(q, q.past, kept, true)
      q.past = nil
    end
    if q.costs and #kept < #got then q.costs.uncount(got, kept) end
    if q.park and #kept < #got then q.park.uncount(got, kept) end
    if q.overtaken or q.past then in_main, q.overtaken = count_in(q, '-'), nil end
    got = kept
  else
    for i = 1, #got do
      local size = #got[i]
      if size > q.largest then q.largest, q.has_grown = size, true end
    end
  end
  q.left = in_main + q.client_items
  return got
end

-- Takes items. A list of another type refuses the call; if it has written already, it takes none.
local function take_or_stop(q, want)
  local is_well, taken = pcall(take, q, want)
  if is_well then return taken end
  if not q.has_written then error(taken, 0) end
  q.stopped, q.left = true, q.left or q.client_items
  return {}
end

-- Takes items that stand behind others that are held, as long as there are some, and room.
local function take_behind(q, count)
  local envelopes, before = {}, 0
  q.has_written = true
  while #envelopes == 0 and q.waiting > before and q.waiting < CALL_MOVES and q.left > 0 and has_room(q, 0)
    and not (q.past or q.stopped) do
    before = q.waiting
    envelopes = take_or_stop(q, count)
  end
  return envelopes
end

-- When the first of the parked clients has a turn again.
local function next_unparked(q)
  -- include parked
  return first_unparked(q)
end

local function recount(q, envelopes)
  -- include order
  recount_order(q, envelopes)
end

-- Lets held items of keys go into main, and sets q.key_rates.
local function limit_keys(q, c, want)
  -- include start_limits key_limits cost_bounds key_rates
  q.in_main = nil
  local text = c.limits and in_force(q, c.limits) or ''
  check_lists(q, want)
  if let_keys_go(q, text) > 0 then q.waiting = q.waiting or 0 end  -- close() counts these
  q.key_rates = key_rates_of(q, text, {})
end

-- Takes items from main, unless the queue is paused, and notes that the worker was seen.
local function take_for(q, c, count)
  -- include has_key_limits
  q.first = next_number(q)
  q.last = q.first + count - 1
  if q.has_keys then has_room(q, CALL_BYTES / 2) end  -- an item that is held takes twice as long
  if c.paused then count = 0
  else
    if c.limits or q.limits or q.pauses then count = limit_starts(q, c, count) end
    if count > 0 and has_key_limits(q, c.limits) then limit_keys(q, c, count) end
  end
  local envelopes = count > 0 and take_or_stop(q, count) or {}
  if #envelopes == 0 and q.waiting then envelopes = take_behind(q, count) end
  local is_other = not q.are_plain or q.waiting or q.order and #q.order ~= #envelopes
  if q.order and is_other then recount(q, envelopes) end
  if q.park then q.park.write() end
  if q.key_rates then q.key_rates.write() end
  if #envelopes == 0 and q.has_keys and q.has_keys ~= '1' then
    c.key_start = tonumber(redis.call('ZRANGE', q.base .. 'limited', '0', '0', 'WITHSCORES')[2])
  end
  if q.has_parked and #envelopes == 0 then c.next_start = next_unparked(q) end
  if q.costs and q.costs.stops then c.next_start = q.costs.hold_turn() end
  if c.limits or q.limits then
    if count == 0 then q.left = q.client_items + count_in(q, '-') end
    -- Whether items wait for the end of a claim: each end then leaves a wake token; this call leaves none.
    local was_full = q.limits and string.byte(q.limits) == 49 or false
    local is_full = c.free and c.free <= #envelopes or q.costs and q.costs.is_full
    q.is_full = is_full and q.left > 0 or false
    if q.is_full ~= was_full then
      q.limits = (q.is_full and '1' or '0') .. string.sub(q.limits or '', 2)
      redis.call('HSET', q.stats, 'limits', q.limits)
    end
    if q.is_full then q.left = 0
    elseif was_full and #envelopes == 0 and q.left > 0 then leave_wake_token(q) end
  end
  if q.is_kept then q.left = 0 end  -- the next end, or item of a quiet client, makes a worker claim
  if q.fills_slots then c.rate_flag = 4 end  -- nothing is claimed ahead
  if c.is_late then redis.call('ZADD', q.workers, whole(q.now), c.worker) end
  return envelopes
end
