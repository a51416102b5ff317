-- Frees the keys of claims that end (or of no claim: no token), and puts the next held item of each at the
-- head of its list; returns how many these are. stays[i]: the item goes back to the head itself, and no other
-- of the key may start before it. Where a later part of the call may still be refused, q.ending has the
-- tokens, and the caller removes the entries q.freed.
local function free_keys(q, keys, tokens, stays)
  -- include keys release startable
  if #keys == 0 then return 0 end
  local entries = redis.call('HMGET', q.base .. 'keys', unpack(keys))
  local gone, free, known, sums = q.freed or {}, {}, {}, {}
  local has_held, most, ending = redis.call('ZCARD', q.base .. 'held') > 0, most_of_key(q), nil
  for i, key in ipairs(keys) do
    local entry, live_count = entries[i], 0
    if entry and entry ~= tokens[i] then
      if not ending then
        ending = {}
        for _, token in pairs(tokens) do ending[token] = true end
      end
      local live, sum = live_tokens(q, entry, q.ending or ending)
      live_count, sums[key] = #live, sum
      if live_count > 0 and not q.ending then
        redis.call('HSET', q.base .. 'keys', key, table.concat(live, ' '))
      end
    end
    if entry and live_count == 0 then gone[#gone + 1] = key end
    if has_held and not (live_count >= most or known[key] or stays and stays[i]) then
      free[#free + 1], known[key] = key, true
    end
  end
  if q.ending then q.freed = gone
  elseif #gone > 0 then redis.call('HDEL', q.base .. 'keys', unpack(gone)) end
  local limits = q.has_keys
  if string.find(limits, ' key rate ', 1, true) or string.find(limits, ' cost', 1, true) then
    free = startable(q, free, sums)
  end
  return #free > 0 and release(q, free) or 0
end

-- The same for claims whose items the call does not read otherwise. It checks what it needs before it writes.
local function free_keys_of(q, groups)
  -- include keys
  check_writes(q.base, {'LTRIM', 'RPUSH', 'ZADD'})
  redis.call('ZCARD', q.delayed)
  expect_key_limits(q)
  local keys, tokens = {}, {}
  for _, group in ipairs(groups) do
    local held = #group.tokens > 0 and redis.call('HMGET', group.busy, unpack(group.tokens)) or {}
    for i, envelope in ipairs(held) do
      local key = envelope and key_of_item(envelope)
      if key then keys[#keys + 1], tokens[#keys + 1] = key, group.tokens[i] end
    end
  end
  return free_keys(q, keys, tokens)
end
