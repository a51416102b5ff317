#!lua flags=no-writes
-- Purpose: where an item that waits stands, and what holds it back, at one instant.
-- KEYS: 1 cq:{NAME}:main (LIST); derived: main:CLIENT, their levels, wake (LIST), clients, delayed, leases,
--   workers (ZSET), busy:WORKER, keys, starts, pauses, config, stats (HASH)
-- ARGV: 1 id, 2 state (main or delayed), 3 client or "-" (of main), 4 position as find returned it, or "" for
--   an item of main that is sought by 5, when it entered main (ms, or "": as its id was enqueued)
-- Replies: {"OK", now, envelope, due (ms, or ""), items of its client and priority that are before it (all of
--   them for a delayed one) and how many there are, all items of main, items in progress, what holds back the
--   items as in lib/held_back.lua, the limit at which its client is and until when (ms; both may be ""),
--   workers that were seen within 20 s, 1 if one of them waits for an item, token of the claim that has the
--   item's key (or ""), id of its item if no item had over 64 KiB (or "")}; {"MOVED"}: it is not within 100
--   places of the position, or was not found by the instant
-- Cost: as finding the item by its place; by an instant, that of O(log n) places
-- include limits queue sizes read_within read_oldest id_check keeper levels read_waiting client_of
-- include paused start_limits held_back found_near

local SMALL_BYTES = 65536
local q = open(KEYS[1], {})
local state, client = ARGV[2], ARGV[3]

-- The item of main that entered it at this instant, its place in its list, and the length of that. An id of a
-- producer is forgotten at a known time after it was enqueued.
local function sought(id, at)
  -- include stored unknown seek
  if not at then
    local window = setting(redis.call('HGET', q.config, 'id_window_ms'), 3600000, 1000, 31622400000)
    at = (tonumber(redis.call('ZSCORE', q.base .. 'ids', id) or '') or 0) - window
  end
  local is_it = new_id_check(id)
  for _, list in ipairs(at > 0 and lists_of(q, client) or {}) do
    local found, index = seek(q, client, list, is_it, at)
    if found then return found, index, redis.call('LLEN', list) end
  end
end

local envelope, place, before, length
if ARGV[4] == '' then envelope, before, length = sought(ARGV[1], tonumber(ARGV[5]))
else envelope, place = found_near(q, ARGV[1], state, client, tonumber(ARGV[4])) end
if not envelope then return {'MOVED'} end

-- Items with options, counters or a history have a header that must be checked.
local function meta_of()
  -- include stored envelope
  return is_plain(envelope) and {} or parse(q, envelope, '0').meta
end

-- The token of the claim that has a key, and the id of its item.
local function holder_of(meta)
  -- include keys
  local key = meta.options and meta.options.key
  local token = key and live_tokens(q, redis.call('HGET', q.base .. 'keys', key))[1]
  if not token then return '', '' end
  local busy = q.base .. 'busy:' .. string.match(token, '^(.*)/')
  local held = q.largest <= SMALL_BYTES and redis.call('HGET', busy, token) or ''
  return token, string.match(held, '^cq1[ !](%S+)') or ''
end

local meta = (q.has_keys or q.has_levels) and meta_of() or {}
local due = ''
if state == 'main' and place then before, length = select(2, list_at(q, client, place))
elseif state ~= 'main' then
  length = redis.call('LLEN', list_of(q, client_of(envelope), meta.options and meta.options.priority))
  before, due = length, redis.call('ZSCORE', q.delayed, envelope)
end
local token, holder = '', ''
if q.has_keys then token, holder = holder_of(meta) end
local function limit_of_client()
  -- include client_room
  local limits = redis.call('HGET', q.config, 'limits')
  return client_limit(q, limits and in_force(q, limits) or '', client_of(envelope))
end
local limit, limited_until = limit_of_client()
local key = meta.options and meta.options.key
local parts = {'queue', 'client ' .. client_of(envelope), key and 'key ' .. key}
local held = busy_count(q)
return {'OK', whole(q.now), envelope, due, before, length, count_in(q, '-') + q.client_items, held,
  held_back(q, held, parts), limit, limited_until,
  redis.call('ZCOUNT', q.workers, whole(q.now - 20000), '+inf'),
  redis.call('LLEN', q.base .. 'wake') == 0 and 1 or 0, token, holder}
