-- Keys: of the items that have the same key at most one is busy, or as many as a limit per key allows
-- (lib/key_limits.lua). cq:{NAME}:keys maps a key to the token of the claim that has taken it (to several,
-- with blanks between them, also where items were chosen by their ids). Behind a token is what its item
-- costs, unless that is 1. A key is busy while as many of these claims are. What ends a claim frees its key
-- (lib/free_keys.lua); a token that damage leaves there counts no longer than its claim. A queue has keys
-- from the first item with one on: q.has_keys.
--
-- An item whose key is busy is held: it is in delayed, with its place (lib/head.lua) as its score, a number
-- above every instant. cq:{NAME}:held has "KEY PLACE" for it, so that the first one of a key is found at
-- once. "KEY PLACE UNTIL" is a gate: behind it the items of the key wait for the one of this place, which is
-- in delayed until then (ms), in a queue with strict order. (docs/decisions/keys.md)
local function held_entry(key, place) return key .. ' ' .. format_text('%016d', place) end

-- The first entry of a key, and whether it is a gate; nil without one. It passes over gates whose item has
-- left delayed, and adds them to `ended`.
local function first_held(q, key, ended)
  local from, to, passed = '[' .. key .. ' ', '(' .. key .. '!', 0
  while true do
    local entry = redis.call('ZRANGE', q.base .. 'held', from, to, 'BYLEX', 'LIMIT', whole(passed), '1')[1]
    local ends = entry and tonumber(string.match(entry, '^%S+ %d+ (%d+)$'))
    if not ends then return entry, false end
    local next_due = redis.call('ZRANGE', q.delayed, '0', '0', 'WITHSCORES')[2]
    if next_due and tonumber(next_due) < ends + 1 then return entry, true end
    passed = passed + 1
    if ended then ended[passed] = entry end
  end
end

-- The key in the header of an envelope, or nil.
local function key_of_item(envelope)
  local header = string.sub(envelope, 1, string.find(envelope, '\n', 1, true) or 0)
  local json = string.match(header, '^cq1[ !]%S+ %d+ %S+ ()')  -- an id or a client may look like a key
  local _, at = string.find(header, '"key":"', json or #header + 1, true)
  if not at then return nil end
  local key = string.match(header, '^([^"\\]*)"', at + 1)
  if key then return key end
  local rest = string.sub(header, at + 1)
  local ends_at = string.find((string.gsub(rest, '\\.', '  ')), '"', 1, true) or 1
  local is_json, words = pcall(cjson.decode, '["' .. string.sub(rest, 1, ends_at - 1) .. '"]')
  return is_json and words[1] or nil
end

-- The tokens of an entry whose claims are busy, but for those that end in this call, with costs as they are
-- stored; and what all of them cost. It may come after a write, so a key of another type counts as empty.
local function live_tokens(q, text, ending)
  local live, sum = {}, 0
  for token, cost in string.gmatch(text or '', '(%S+)( ?%d*)%f[%z ]') do
    local worker = string.match(token, '^(.*)/')
    if worker and not (ending and ending[token])
      and redis.pcall('HEXISTS', q.base .. 'busy:' .. worker, token) == 1 then
      live[#live + 1], sum = token .. cost, sum + setting(cost, 1, 1, MOST_COST)
    end
  end
  return live, sum
end

-- How many claims may have the same key. Where a bound counts costs, that is one bound on the claims too.
local MOST_OF_KEY = 100
local function most_of_key(q)
  if not q.has_keys or q.has_keys == '1' then return 1 end
  if not q.most_of_key then
    local most = MOST_OF_KEY + 1
    for number in string.gmatch(q.has_keys, ' key busy (%d+)') do
      most = math.min(most, setting(number, 1, 1, MOST_OF_KEY))
    end
    q.most_of_key = most <= MOST_OF_KEY and most or 1
  end
  return q.most_of_key
end

-- Those of the keys whose rates let no item start yet, as a set: they return by themselves.
local function limited_keys(q, keys)
  local limited = {}
  if q.has_keys and q.has_keys ~= '1' and #keys > 0 then
    for i, at in ipairs(redis.pcall('ZMSCORE', q.base .. 'limited', unpack(keys))) do
      at = tonumber(at or 0)
      limited[keys[i]] = at > q.now and at < LAST_MS or nil  -- or another client has written it
    end
  end
  return limited
end
