-- Limits per key. Of the items with the same key as many are busy as the smallest bound says, else one; for a
-- bound on costs, as many as fit, at most MOST_OF_KEY. The rates of a key have their levels in the hash
-- `starts`, field "key KEY" (lib/start_limits.lua). While items are held that a rate does not let start, the
-- zset `limited` has their key, and when it does (ms). A claim that begins, and a reap, let the first held
-- item of a key go when its instant has come. One that goes too early is held again.
--
-- While such limits hold, the field `keys` of stats is "1 SINCE LAST LIMITS": the number of the first claim
-- under these limits, and the limits. When they change, the first held items of all keys go, in order of the
-- keys: LAST is "+" and the last of these keys, or "-" when all have gone.
local KEYS_AT_ONCE = 100  -- so many in one call

-- Keys that have held items, behind LAST; and LAST after them.
local function next_held_keys(q, last)
  local keys = {}
  while last ~= '-' and #keys < KEYS_AT_ONCE do
    local from = last == '+' and '[!' or '[' .. string.sub(last, 2) .. '!'
    local entry = redis.call('ZRANGE', q.base .. 'held', from, '+', 'BYLEX', 'LIMIT', '0', '1')[1]
    local key = entry and string.match(entry, '^%S+')
    if key then keys[#keys + 1] = key end
    last = key and '+' .. key or '-'
  end
  return keys, last
end

local function release_keys(q, keys)
  -- include keys release
  return release(q, keys)
end

-- Returns how many items go on, and whether more may at once. limits: those in force.
local function let_keys_go(q, limits)
  -- include limits_per key_field
  local limited, text = q.base .. 'limited', limits_per(limits, 'key')
  local since, last, before = read_key_field(q)
  if text ~= (before or '') then since, last = whole(math.max(q.totals.number + 1, q.now * 1000)), '+' end
  local keys = {}
  keys, last = next_held_keys(q, last or '-')
  local due = redis.call('ZRANGEBYSCORE', limited, '-inf', whole(text == '' and LAST_MS or q.now), 'LIMIT', 0,
    whole(KEYS_AT_ONCE))
  local has_more = last ~= '-' or #due == KEYS_AT_ONCE
  write_key_field(q, text == '' and not has_more and '1' or table.concat({'1', since, last, text}, ' '))
  for _, key in ipairs(due) do keys[#keys + 1] = key end
  if #keys == 0 then return 0, has_more end
  redis.call('ZREM', limited, unpack(keys))
  return release_keys(q, keys), has_more
end
