-- Reads groups of new items from ARGV, checks all of them, and only then writes any. A group: QUEUE (index in
-- KEYS), GUARD (index of a token of this call, or 0), CLIENT or "-", DUE ("" now, "+MS" from now, or an
-- instant in ms), PREFIX, FIRST, COUNT, then COUNT payloads with ids PREFIX..FIRST and on; with PREFIX ""
-- COUNT pairs of id and payload. With -COUNT the items have options: a JSON object before each payload, whose
-- bytes count HEADER_WEIGHT times.
local ENQUEUE_BYTES, ENQUEUE_QUEUES = 5242880, 100

-- The queues of KEYS by their place there. The first key names one that is open already. In a cluster every
-- call also names the key cq:{NAME}:absent, which never is: the server then answers TRYAGAIN while the slot
-- is being moved key by key, and no script sees half of a queue or stops halfway at a missing key.
local function open_others(q, writes)
  local queues, count = {q}, 1
  for i = 2, #KEYS do
    if string.sub(KEYS[i], -5) == ':main' then
      count = count + 1
      if count > ENQUEUE_QUEUES + 1 then
        error({err = 'ERR one call takes ' .. ENQUEUE_QUEUES .. ' queues'})
      end
      queues[i] = KEYS[i] == KEYS[1] and q or open(KEYS[i], writes)
    end
  end
  return queues
end

-- When a group is due, in words. Anything else than '', "+MS" or an instant in ms would fail after the first
-- write.
local function check_due(word)
  if word ~= '' and (#word > 16 or not string.find(word, '^[+-]?%d+$')) then
    error({err = 'ERR an item is due now, after +MS or at an instant in ms, not ' .. string.sub(word, 1, 40)})
  end
  return word
end

local function read_groups(queues, at)
  local bytes, groups, index, last = 0, {}, 0, #ARGV
  for i = at, last do bytes = bytes + #ARGV[i] end
  while at <= last do
    local prefix, count = ARGV[at + 4], tonumber(ARGV[at + 6])
    local is_own, has_options = prefix == '', count < 0
    local step = is_own and 2 or 1
    if has_options then
      count, step = -count, step + 1
      for i = 1, count do bytes = bytes + (HEADER_WEIGHT - 1) * #ARGV[at + 5 + i * step] end
    end
    groups[count_of(#groups + 1, 1)] = {
      queue = queues[tonumber(ARGV[at])], guard = tonumber(ARGV[at + 1]), client = ARGV[at + 2],
        due = check_due(ARGV[at + 3]), prefix = prefix,
      first = tonumber(ARGV[at + 5]), count = count, at = at + 7, step = step, has_options = has_options,
        index = index, own = is_own, envelopes = {},
      new_ids = is_own and {},
    }
    bytes = bytes + count * (#ARGV[at + 2] + #prefix)  -- each item has them
    local q = groups[#groups].queue
    if is_own then q.own_ids = (q.own_ids or 0) + count end
    index, at = index + count, at + 7 + step * count
    count_of(index, 0)
  end
  if index > 1 and bytes > ENQUEUE_BYTES then
    error({err = 'ERR one call takes ' .. ENQUEUE_BYTES .. ' bytes of items, or a single item, not '
      .. bytes})
  end
  return groups
end

local function read_policy(q, group)
  if not q.limit then
    local config = redis.call('HMGET', q.config, 'max_payload', 'id_window_ms', 'durability')
    q.limit, q.id_window = setting(config[1], DEFAULT_MAX_PAYLOAD, 1, HIGHEST_MAX_PAYLOAD),
      setting(config[2], 3600000, 1000, 31622400000)
    q.durability = durability(q, config[3])
    q.wake_tokens = redis.call('LLEN', q.base .. 'wake')
  end
  if group.due ~= '' then redis.call('ZCARD', q.delayed) end  -- or WRONGTYPE
  if group.own then
    -- more than this call adds, so that they become fewer, but few for each of many queues
    if not q.old_ids then
      q.old_ids = redis.call('ZRANGEBYSCORE', q.base .. 'ids', '-inf', whole(q.now), 'LIMIT', 0,
        whole(q.own_ids + math.ceil(100 / #KEYS)))
    end
    q.known = q.known or {}
  end
  length_of(q, '-')
  if group.client ~= '-' then length_of(q, group.client) end
end

-- The limits per "queue", "client" and "key", if some count costs.
local function read_cost_limits(q)
  -- include start_limits
  local text = in_force(q, redis.call('HGET', q.config, 'limits') or '')
  if not string.find(text, ' cost', 1, true) then return {} end
  local limits = {}
  for name, scope, bound in string.gmatch(text, '([%w-]+) (%l+) busy ([1-9]%d*) cost') do
    limits[#limits + 1] = {name = name, scope = scope, most = tonumber(bound)}
  end
  for _, scope in ipairs({'queue', 'client', 'key'}) do
    for _, rate in ipairs((limits_of(text, scope))) do
      if rate.is_by_cost then limits[#limits + 1] = {name = rate.name, scope = scope, most = rate.burst} end
    end
  end
  return limits
end

-- The refusal of an item that costs more than a limit by cost lets start at once, so it could never start:
-- {"COSTLY", its position, its cost, the most, the name of the limit}, or nil.
local function too_costly(group, i)
  local q, cost = group.queue, group.costs[i]
  q.cost_limits = q.cost_limits or read_cost_limits(q)
  local holds = {queue = true, client = group.client ~= '-', key = group.keys[i]}
  for _, limit in ipairs(q.cost_limits) do
    if holds[limit.scope] and cost > limit.most then
      return {'COSTLY', group.index + i - 1, cost, limit.most, limit.name}
    end
  end
end

-- The headers' last part for each item of a group of new items with options, or the call is refused. A
-- deadline "+MS" is from now. The second value is the level of each that is not normal, by its position; nil
-- if all are.
local function metas_of(group)
  -- include enqueued_at stored envelope enter_level
  local metas, levels, now = {}, {}, group.queue.now
  local function deadline_after(ms) return '"deadline":' .. whole(now + tonumber(ms)) end
  for i = 1, group.count do
    local word = string.gsub(ARGV[group.at + i * group.step - 2], '"deadline":"%+(%d+)"', deadline_after, 1)
    local text = '{"options":' .. word .. '}'
    local meta = read_meta(text)
    if not meta or next(meta) ~= 'options' or next(meta, 'options') then
      error({err = 'ERR the options of an item are a JSON object as the library writes it, not '
        .. string.sub(word, 1, 40)})
    end
    metas[i], levels[i] = text .. '\n', level_of(meta)
    if meta.options.key then group.queue.brings_keys = true end
    if meta.options.cost then
      group.costs, group.keys = group.costs or {}, group.keys or {}
      group.costs[i], group.keys[i] = meta.options.cost, meta.options.key
    end
  end
  if group.queue.brings_keys then expect_hash(group.queue.base .. 'keys') end
  if not next(levels) then return metas end
  for _, level in ipairs({'high', 'low'}) do check_level(group.queue, group.client, level) end
  return metas, levels
end

-- Ids that the producer gave: those that are known, here or in this call, are left out.
local function check_own(group, duplicates, middle, metas, levels)
  local q, step, envelopes = group.queue, group.step, group.envelopes
  for i = 0, group.count - 1 do
    local id, payload = ARGV[group.at + step * i], ARGV[group.at + step * (i + 1) - 1]
    if #payload > q.limit then return {'TOO_LARGE', group.index + i, #payload, q.limit} end
    local forget_at = q.known[id] or redis.call('ZSCORE', q.base .. 'ids', id)
    if forget_at and tonumber(forget_at) > q.now then duplicates[#duplicates + 1] = group.index + i
    else
      local refusal = group.costs and group.costs[i + 1] and too_costly(group, i + 1)
      if refusal then return refusal end
      q.known[id] = q.now + q.id_window
      group.new_ids[#group.new_ids + 1] = id
      envelopes[#envelopes + 1] = 'cq1 ' .. id .. middle .. (metas and metas[i + 1] or '') .. payload
      if levels then group.levels[#envelopes] = levels[i + 1] end
    end
  end
end

-- Checks sizes, key types and known ids, and makes the groups' envelopes. Returns the refusal, if any. Writes
-- nothing.
local function check_groups(groups, duplicates)
  for _, group in ipairs(groups) do
    local q, envelopes = group.queue, group.envelopes
    read_policy(q, group)
    local metas, levels
    if group.has_options then metas, levels = metas_of(group) end
    if levels then group.levels = group.own and {} or levels end
    local middle = ' ' .. whole(q.now) .. ' ' .. group.client .. (metas and ' ' or ' -\n')
    if group.own then
      local refusal = check_own(group, duplicates, middle, metas, levels)
      if refusal then return refusal end
    else
      local start, limit, number, at, step, costs = 'cq1 ' .. group.prefix, q.limit, group.first - 1,
        group.at - 1, group.step, group.costs
      for i = 1, group.count do
        local payload = ARGV[at + i * step]
        if #payload > limit then return {'TOO_LARGE', group.index + i - 1, #payload, limit} end
        local refusal = costs and costs[i] and too_costly(group, i)
        if refusal then return refusal end
        envelopes[i] = start .. format_text('%d', number + i) .. middle .. (metas and metas[i] or '')
          .. payload
      end
    end
  end
end

-- The queue has items with keys from now on. The key `keys` says so too, so that repair finds out when
-- the field of stats is lost.
local function begin_keys(q)
  if not q.has_keys then
    q.has_keys = '1'
    redis.call('HSET', q.stats, 'keys', '1')
    redis.call('HSET', q.base .. 'keys', NO_KEY, '')
  end
end

-- Adds ids that producers gave, with the instant at which they are forgotten (ms) less a fraction by which
-- those of one call stay in its order.
local function write_ids(q, ids)
  sliced(q.old_ids, function(...) redis.call('ZREM', q.base .. 'ids', ...) end)
  q.old_ids = {}  -- this call may give one of them again
  local words, first = {}, q.now + q.id_window - 1 + ((q.put_ids or 0) + 1) / 1024
  for i, id in ipairs(ids) do words[2 * i - 1], words[2 * i] = fraction(first + (i - 1) / 1024), id end
  q.put_ids = (q.put_ids or 0) + #ids
  sliced(words, function(...) redis.call('ZADD', q.base .. 'ids', ...) end)
end

local function write_delayed(q, due, envelopes, client)
  -- include delay
  local at = string.sub(due, 1, 1) == '+' and q.now + tonumber(due) or tonumber(due)
  for _, envelope in ipairs(envelopes) do put_delayed(q, at, envelope, client) end
end

local function tail_by_level(q, group)
  -- include enter_level
  local envelopes, client = {high = {}, normal = {}, low = {}}, group.client
  for i, envelope in ipairs(group.envelopes) do
    table.insert(envelopes[group.levels[i] or 'normal'], envelope)
  end
  if #envelopes.normal > 0 then tail(q, client, envelopes.normal) end
  for _, level in ipairs({'high', 'low'}) do
    if #envelopes[level] > 0 then
      tail(q, client, envelopes[level], enter_level(q, client, level))
    end
  end
end

-- Writes one checked group. Costs O(1) an item, O(log n) where it is delayed or carries an id of its own.
local function write_group(group)
  local q = group.queue
  local count = #group.envelopes
  if count == 0 then return end
  if group.own then write_ids(q, group.new_ids) end
  q.enqueued = (q.enqueued or 0) + count
  if q.brings_keys then begin_keys(q) end
  if group.due ~= '' then write_delayed(q, group.due, group.envelopes, group.client)
  elseif group.levels then tail_by_level(q, group)
  else tail(q, group.client, group.envelopes) end
end

-- What the caller must wait for: the strictest durability of its queues, on the most replicas that one of
-- them asks for.
local function strictest(queues)
  local strict, most = nil, 0
  for _, q in ipairs(queues) do
    local level, replicas = string.match(q.durability or '', '^|(%a+):(%d+)$')
    if level then
      strict = strict == 'fsynced' and strict or level
      most = math.max(most, tonumber(replicas))
    end
  end
  return strict and '|' .. strict .. ':' .. whole(most) or ''
end
