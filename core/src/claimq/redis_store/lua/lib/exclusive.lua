-- Exclusive keys: of the items that have the same key at most one is busy. cq:{NAME}:exclusive maps a key to "TOKEN DUE": the claim that took it last, and the
-- instant (ms) until which the last item that waits for the key is delayed. A key is busy if and only if that claim is busy: however it ends, nothing has to
-- free the key. A queue has such keys from the first item with one on: seen.exclusive. (docs/decisions/exclusive-keys.md)
local NO_KEY = ''  -- no item has this key
local KEY_STEP_MS, LONGEST_PAUSE_MS, LONGEST_WAIT_MS = 100, 5000, 3600000

-- What a call may move to delayed, in bytes: half of what it may read.
local MOVED_BYTES = CALL_BYTES / 2

-- Refuses what a claim of items with keys would refuse after its first write. Reads only.
-- On demand: few queues have such items.
local function check_keys(q)
  check_permission(q.base, 'HGET', '0')
  check_permission(q.base, 'HEXISTS', '0')
  check_permission(q.base, 'HSCAN', '0')
  expect_hash(q.base .. 'exclusive')
end

-- Whether the claim that an entry names is busy and when it was made, and until when the last item waits. It may come after a write, so a key of another type
-- counts as empty.
local function read_key(q, text)
  local token, due = string.match(text or '', '^(%S+) (%d+)$')
  local worker, number = string.match(token or '', '^(.*)/(%d+)')
  local is_busy = worker and not (q.ending and q.ending[token]) and redis.pcall('HEXISTS', q.base .. 'busy:' .. worker, token) == 1
  return {token = token, is_busy = is_busy, since = (tonumber(number) or 0) / 1000, due = tonumber(due) or 0}
end

-- The entry of the key that an item has to wait for; nil if it has none, or takes it now as the one at this position of the call.
-- On demand: few items have a key.
local function key_to_wait_for(q, meta, position)
  local key = q.seen.exclusive and meta.options and meta.options.exclusive
  if not key then return nil end
  q.keys = q.keys or {}
  local entry = q.keys[key] or read_key(q, redis.call('HGET', q.base .. 'exclusive', key))
  q.keys[key] = entry
  if entry.is_busy then return entry end
  entry.is_busy, entry.position, entry.since = true, position, q.now
end

-- An item that has to wait goes to delayed for a quarter of the time that its key has been busy, but at most 5 s, and behind those that wait for the same
-- key: so a key costs few looks, however many items wait for it and however long it is busy.
-- On demand: few items have a key.
local function wait_for_key(q, entry, envelope)
  local pause = math.max(0, math.min((q.now - entry.since) / 4, LONGEST_PAUSE_MS))
  entry.due = math.min(math.max(entry.due, q.now + math.floor(pause)) + KEY_STEP_MS, q.now + LONGEST_WAIT_MS)
  put_delayed(q, entry.due, envelope)
  has_room(q, #envelope + header_bytes(envelope))
  q.waiting = (q.waiting or 0) + 1
end

-- Removes entries whose claims have ended, among so many.
local function sweep_keys(q, count)
  local at, gone = string.match(redis.call('HGET', q.stats, 'exclusive_cursor') or '', '^%d+$') or '0', {}
  local page = redis.pcall('HSCAN', q.base .. 'exclusive', at, 'COUNT', whole(count))
  if page.err then page = {'0', {}} end  -- the cursor is invalid: another client has changed it; begin again
  for i = 1, #page[2], 2 do
    local key, entry = page[2][i], read_key(q, page[2][i + 1])
    if key ~= NO_KEY and not entry.is_busy and entry.due <= q.now then gone[#gone + 1] = key end
  end
  sliced(gone, 1000, function(list, from, to) redis.call('HDEL', q.base .. 'exclusive', unpack(list, from, to)) end)
  if page[1] ~= at then redis.call('HSET', q.stats, 'exclusive_cursor', page[1]) end
end

-- Writes the entries that the call has changed. The tokens of the items that it claims begin and end with these texts.
-- On demand: few queues have such items.
local function write_keys(q, before, behind)
  local words, taken = {}, 0
  for key, entry in pairs(q.keys) do
    local token = entry.token
    if entry.position then token, taken = before .. whole(q.first + entry.position - 1) .. behind, taken + 1 end
    words[#words + 1], words[#words + 2] = key, token .. ' ' .. whole(entry.due)
  end
  sliced(words, 1000, function(list, from, to) redis.call('HSET', q.base .. 'exclusive', unpack(list, from, to)) end)
  if taken >= 16 then sweep_keys(q, 2 * taken)
  elseif taken > 0 and string.find(behind, '[A-D]$') then sweep_keys(q, 32 * taken) end  -- one nonce of sixteen
end

-- The queue has items with keys from now on. The key `exclusive` says so too, so that repair finds out when the field of stats is lost.
-- On demand: few queues have such items.
local function begin_keys(q)
  if not q.seen.exclusive then
    q.seen.exclusive = '1'
    redis.call('HSET', q.stats, 'exclusive', '1')
    redis.call('HSET', q.base .. 'exclusive', NO_KEY, '')
  end
end
