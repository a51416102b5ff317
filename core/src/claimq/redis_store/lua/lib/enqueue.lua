-- Reads groups of new items from ARGV, checks all of them, and only then writes any.
-- A group: QUEUE (index in KEYS), GUARD (index of a token of this call, or 0), CLIENT or "-", DUE ("" now, "+MS" from now, or an
-- instant in ms), PREFIX, FIRST, COUNT, then COUNT payloads with ids PREFIX..FIRST and on; with PREFIX "" COUNT pairs of id and payload.
local function read_groups(queues, at)
  local groups, index = {}, 0
  while at <= #ARGV do
    local group = {queue = queues[tonumber(ARGV[at])], guard = tonumber(ARGV[at + 1]), client = ARGV[at + 2], due = ARGV[at + 3]}
    local prefix, first, count = ARGV[at + 4], tonumber(ARGV[at + 5]), tonumber(ARGV[at + 6])
    at = at + 7
    group.index, group.own, group.ids, group.payloads = index, prefix == '', {}, {}
    for i = 1, count do
      if group.own then group.ids[i], at = ARGV[at], at + 1 else group.ids[i] = prefix .. (first + i - 1) end
      group.payloads[i], at = ARGV[at], at + 1
    end
    index = index + count
    groups[#groups + 1] = group
  end
  return groups
end

-- Checks sizes, key types and known ids. Returns nil and the groups' envelopes in place, or the refusal.
local function check_groups(groups, duplicates)
  for _, group in ipairs(groups) do
    local q, seen = group.queue, {}
    if not q.limit then
      local config = redis.call('HMGET', q.base .. 'config', 'max_payload', 'id_window_ms')
      q.limit, q.id_window = tonumber(config[1]) or 1048576, tonumber(config[2]) or 3600000
      redis.call('LLEN', q.base .. 'wake'); redis.call('ZCARD', q.base .. 'delayed'); redis.call('ZCARD', q.base .. 'ids')
      q.known = {}
    end
    length_of(q, '-'); length_of(q, group.client)
    group.envelopes = {}
    local middle = ' ' .. string.format('%.0f', q.now) .. ' ' .. group.client .. ' -\n'
    for i, payload in ipairs(group.payloads) do
      if #payload > q.limit then return {'TOO_LARGE', group.index + i - 1, #payload, q.limit} end
      local id, repeated = group.ids[i], false
      if group.own then
        local forget_at = redis.call('ZSCORE', q.base .. 'ids', id)
        repeated = q.known[id] or (forget_at and tonumber(forget_at) > q.now)
        q.known[id] = true
      end
      if repeated then duplicates[#duplicates + 1] = group.index + i - 1
      else group.envelopes[#group.envelopes + 1] = 'cq1 ' .. id .. middle .. payload; seen[#seen + 1] = id end
    end
    group.new_ids = seen
  end
end

-- Writes one checked group. Costs O(1) an item, O(log n) where it is delayed or carries an id of its own.
local function write_group(group)
  local q = group.queue
  local count = #group.envelopes
  if count == 0 then return end
  if group.own then
    for _, old in ipairs(redis.call('ZRANGEBYSCORE', q.base .. 'ids', '-inf', q.now, 'LIMIT', 0, 20)) do redis.call('ZREM', q.base .. 'ids', old) end
    for _, id in ipairs(group.new_ids) do redis.call('ZADD', q.base .. 'ids', q.now + q.id_window, id) end
  end
  q.enqueued = (q.enqueued or 0) + count
  local due = group.due
  if due == '' then tail(q, group.client, group.envelopes); return end
  local at = string.sub(due, 1, 1) == '+' and q.now + tonumber(string.sub(due, 2)) or tonumber(due)
  for _, envelope in ipairs(group.envelopes) do redis.call('ZADD', q.base .. 'delayed', at, envelope) end
end
