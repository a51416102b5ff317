-- Takes the keys of items that a call claims, and holds items that have to wait for their keys.

-- The key of an item that has nothing else in its header, like most that have one: then nothing there needs
-- to be checked.
local function key_of_plain(envelope)
  local from, to, ends, key = string.match(envelope,
    '^cq1 [!-~]+ ()%d+() [!-~]+() {"options":{"key":"([!-~]+)"}}\n')
  local is_valid = key and from <= 206 and to - from <= 13 and ends - to <= 129 and #key <= ITEM_KEY
  return is_valid and not string.find(key, '["\\]') and key or nil
end

-- Whether the key is paused, or a held item of it comes before this one. In the second case that one is put
-- at the head of its list (q.overtaken) unless it waits for its time, and this one is held.
local function is_behind(q, key, envelope)
  if q.has_paused_keys and paused_until(q, 'key ' .. key) then return true end
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

-- Notes that the item at this position of the call takes its key, whose entry is this text or false; false if
-- the key is busy, or an item that is held comes first.
local function take_key(q, key, entry, position, envelope)
  q.keys = q.keys or {}
  if q.keys[key] ~= nil then return false end
  local is_free = not (entry and #live_tokens(q, entry, q.ending) > 0 or is_behind(q, key, envelope))
  q.keys[key] = is_free and position
  return is_free
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
