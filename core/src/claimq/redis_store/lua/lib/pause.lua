-- Begins and ends pauses (lib/paused.lua, lib/pauses.lua). check_pauses() comes before the first write.
local MOST_PAUSED, BY_BYTES, REASON_BYTES = 100, 512, 1600

-- Refuses what the other functions refuse.
local function check_pauses(q)
  check_permission(q.base, 'HGETALL')
  check_permission(q.base, 'ZMSCORE', '0')
  check_permission(q.base, 'ZRANGE', '0', '0')
  expect_hash(q.base .. 'pauses')
  expect_hash(q.config)
  expect_zset(q.clients)
  expect_list(q.base .. 'wake')
  if q.has_keys then
    check_permission(q.base, 'HEXISTS', '0')
    expect_hash(q.base .. 'keys')
    expect_zset(q.base .. 'held')
    expect_zset(q.delayed)
    expect_zset(q.heads)
  end
end

-- Writes what claims read. Pauses that are over let their keys go in the next reap.
local function note_pauses(q)
  local pauses, over, next_end, clients, key_end = read_pauses(q)
  if #over > 0 then next_end = q.now end
  local text = #pauses + #over > 0
    and format_text('%d %d %d %d', next_end, q.now, clients, key_end or 0) or ''
  redis.call('HSET', q.config, 'pauses', text)
end

-- Gives a client that is parked its turn back: the next claim parks it until the end of what holds it.
local function unpark_part(q, part)
  -- include return_turns
  local name = string.match(part, '^client (.*)$')
  if name then return_turns(q, {name}) end
end

-- Puts the first held item of keys that are free at the head of its list; returns how many these are.
local function release_keys(q, parts)
  -- include keys may_go release
  local free = {}
  for _, part in ipairs(parts) do
    local key = string.match(part, '^key (.*)$')
    if key and may_go(q, key) then free[#free + 1] = key end
  end
  return #free > 0 and release(q, free) or 0
end

-- Pauses a part of the queue ("queue", "client NAME", "key KEY") until an instant (ms; nil: until it is
-- resumed), in place of an earlier pause. False if as many clients, or keys, are paused as may be: nothing is
-- written then. since: an app does, since this instant (as text).
local function set_pause(q, part, ends, by, reason, since)
  local pauses, kind, count = read_pauses(q), string.match(part, '^%a+'), 0
  for i = 1, #pauses, 2 do
    if pauses[i] ~= part and string.match(pauses[i], '^%a+') == kind then count = count + 1 end
  end
  if count >= MOST_PAUSED then return false end
  by, reason = string.sub(by, 1, BY_BYTES), string.sub(reason, 1, REASON_BYTES)
  ends = ends or NEVER_MS
  local text = format_text('%d %d %d', ends, since and 0 or ends, #by) .. ' ' .. by .. ' ' .. reason
  redis.call('HSET', q.base .. 'pauses', part, (since or whole(q.now)) .. ' ' .. text)
  note_pauses(q)
  unpark_part(q, part)
  return true
end

-- For an app: a pause that ends later stays, one by an app goes on, and one by hand only ends later.
local function close_until(q, part, ends, by, reason)
  local before, by_app, since = paused_until(q, part)
  if ends <= q.now or before and before >= ends then return true end
  if before and not by_app then
    local text = redis.call('HGET', q.base .. 'pauses', part)
    redis.call('HSET', q.base .. 'pauses', part, (string.gsub(text, ' %d+', ' ' .. whole(ends), 1)))
    note_pauses(q)
    return true
  end
  return set_pause(q, part, ends, by, reason, by_app and since or whole(q.now))
end

-- Ends pauses. Leaves a wake token: items may start again. Returns how many held items it let go, which
-- close() counts.
local function end_pauses(q, parts)
  if #parts > 0 then redis.call('HDEL', q.base .. 'pauses', unpack(parts)) end
  note_pauses(q)
  for _, part in ipairs(parts) do unpark_part(q, part) end
  leave_wake_token(q)
  return q.has_keys and release_keys(q, parts) or 0
end
