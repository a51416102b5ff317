-- Exclusive keys: of the items that have the same key at most one is busy. cq:{NAME}:exclusive maps a key to
-- "TOKEN DUE": the claim that took it last, and the instant (ms) until which the last item that waits for the
-- key is delayed. A key is busy if and only if that claim is busy: however it ends, nothing has to free the
-- key. A queue has such keys from the first item with one on: q.has_exclusive.
-- (docs/decisions/exclusive-keys.md)

local KEY_STEP_MS, LONGEST_PAUSE_MS, LONGEST_WAIT_MS = 100, 5000, 3600000

-- Whether the claim that an entry names is busy and when it was made, and until when the last item waits. It
-- may come after a write, so a key of another type counts as empty.
local function read_key(q, text)
  local token, due = string.match(text or '', '^(%S+) (%d+)$')
  local worker, number = string.match(token or '', '^(.*)/(%d+)')
  local is_busy = worker and not (q.ending and q.ending[token])
    and redis.pcall('HEXISTS', q.base .. 'busy:' .. worker, token) == 1
  return {token = token, is_busy = is_busy, since = (tonumber(number) or 0) / 1000, due = tonumber(due) or 0}
end

-- The entry of the key that an item has to wait for; nil if it has none, or takes it now as the one at this
-- position of the call.
local function key_to_wait_for(q, meta, position)
  local key = q.has_exclusive and meta.options and meta.options.exclusive
  if not key then return nil end
  q.keys = q.keys or {}
  local entry = q.keys[key] or read_key(q, redis.call('HGET', q.base .. 'exclusive', key))
  q.keys[key] = entry
  if entry.is_busy then return entry end
  entry.is_busy, entry.position, entry.since = true, position, q.now
end

-- An item that has to wait goes to delayed for a quarter of the time that its key has been busy, but at most
-- 5 s, and behind those that wait for the same key: so a key costs few looks, however many items wait for it
-- and however long it is busy.
local function wait_for_key(q, entry, envelope)
  local pause = math.max(0, math.min((q.now - entry.since) / 4, LONGEST_PAUSE_MS))
  entry.due = math.min(math.max(entry.due, q.now + math.floor(pause)) + KEY_STEP_MS, q.now + LONGEST_WAIT_MS)
  put_delayed(q, entry.due, envelope)
  has_room(q, #envelope + header_bytes(envelope))
  q.waiting = (q.waiting or 0) + 1
end
