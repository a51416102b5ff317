-- Takes the keys of items that a call claims, and holds items that have to wait for their keys.

-- Whether the key is paused, or a held item of it comes before this one. In the second case that one is put
-- at the head of its list (q.overtaken) unless it waits for its time, and this one is held.
local function is_behind(q, key, envelope)
  if q.behind and q.behind[key] or q.has_paused_keys and paused_until(q, 'key ' .. key) then return true end
  if q.has_held == nil then q.has_held = redis.call('ZCARD', q.base .. 'held') > 0 end
  if not q.has_held then return false end
  local first, is_gate = first_held(q, key)
  if not first then return false end
  local place = place_of(envelope)
  if place and held_entry(key, place) < first then return false end
  if not is_gate then
    q.overtaken = q.overtaken or {}
    q.overtaken[#q.overtaken + 1] = key
  end
  return true
end

-- How many more claims may have a key, whose entry is this text. Notes what its items in progress cost.
local function room_of(q, key, entry)
  local live, sum = live_tokens(q, entry, q.ending)
  if q.key_rates then q.key_rates.sums[key] = sum end
  if #live > 0 then
    q.others = q.others or {}
    q.others[key] = table.concat(live, ' ')
  end
  return most_of_key(q) - #live
end

-- Notes that the item at this position of the call takes its key; false if the key is busy or at a limit, or
-- an item that is held comes first.
local function take_key(q, key, entry, position, envelope, cost)
  local keys, takers, rates = q.keys, q.takers, q.key_rates
  local room = keys[key] or entry and room_of(q, key, entry) or most_of_key(q)
  keys[key] = room
  if room < 1 or rates and rates.start(key, cost) then return false end
  if is_behind(q, key, envelope) then
    q.behind = q.behind or {}
    q.behind[key] = true
    return false
  end
  takers[#takers + 1], takers[#takers + 2], takers[#takers + 3], keys[key] = key, position, cost, room - 1
  if rates then rates.count(key, cost) end
  return true
end

-- For limits per key, after items of these keys were taken or held: lets the next held item of a key go if
-- one more may start, or notes when it may.
local function let_next_go(q, keys)
  local limited, others, seen = {}, {}, {}
  if q.has_held == nil then q.has_held = redis.call('ZCARD', q.base .. 'held') > 0 end
  for _, key in ipairs(q.has_held and keys or {}) do
    if key ~= NO_KEY and q.keys[key] and not seen[key] then
      local entry, is_gate = nil, false
      if q.keys[key] >= 1 and not (q.behind and q.behind[key]) then entry, is_gate = first_held(q, key) end
      local start = entry and not is_gate and (q.key_rates and q.key_rates.next_start(key) or 0)
      if start == 0 then
        q.overtaken = q.overtaken or {}
        q.overtaken[#q.overtaken + 1] = key
      end
      if start and start > 0 and start < math.huge then
        limited[#limited + 1], limited[#limited + 2] = whole(start), key
      else others[#others + 1] = key end
      seen[key] = true
    end
  end
  if #others > 0 then redis.call('ZREM', q.base .. 'limited', unpack(others)) end
  sliced(limited, function(...) redis.call('ZADD', q.base .. 'limited', ...) end)
  if #limited > 0 then leave_wake_token(q) end  -- one of those that sleep waits for the instant
end

-- Holds an item. Its place is that of a claim that this call could have made.
local function hold(q, key, envelope)
  local item = parse(q, envelope, '0')
  q.waiting = (q.waiting or 0) + 1
  if not item.meta.place then
    item.meta.place = q.last + q.waiting
    envelope = format(item)
  end
  local place = item.meta.place
  enter_delayed(q, whole(place), envelope, item.client)
  redis.call('ZADD', q.base .. 'held', '0', held_entry(key, place))
  q.has_held = true
  has_room(q, #envelope)
end
