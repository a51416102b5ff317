#!lua flags=no-writes
-- Purpose: where an item that waits stands, and what holds it back, at one instant.
-- KEYS: 1 cq:{NAME}:main (LIST); derived: main:CLIENT, their levels, wake (LIST), clients, delayed, leases,
--   workers (ZSET), busy:WORKER, keys, starts, pauses, shares, config, stats (HASH)
-- ARGV: 1 id, 2 state (main or delayed), 3 client or "-" (of main), 4 position as find returned it, or "" for
--   an item of main that is sought by 5, when it entered main (ms, or "": as its id was enqueued)
-- Replies: {"OK", now, envelope, due (ms, or ""), items of its level that are before it (all of
--   them for a delayed one) and how many there are, all items of main, items in progress, what holds back the
--   items as in lib/held_back.lua ("": nothing), the limit at which its client or key is and until when (ms;
--   both may be ""), "client" or "key", workers that were seen within 20 s, 1 if one of them waits for an
--   item, token of a claim that has the item's key (or "": it is free), id of its item if no item had over 64
--   KiB (or ""), how many free slots are kept from its client}; {"MOVED"}: it is not within 100 places of the
--   position, or was not found by the instant
-- Cost: as finding the item by its place; by an instant, that of O(log n) places
-- include limits numbers clock look id_check keeper levels client_of hold_config

local SMALL_BYTES = 65536
local q = look_at(KEYS[1])
local state, client = ARGV[2], ARGV[3]

-- The item of main that entered it at this instant, its place in its list, and the length of that. Without an
-- instant: when its producer enqueued its id, until that is forgotten.
local function sought(id, at)
  -- include sizes stored seek
  local ids, later = q.base .. 'ids', nil
  local score = redis.call('ZSCORE', ids, id)
  if score then
    local window = setting(redis.call('HGET', q.base .. 'config', 'id_window_ms'), 3600000, 1000, 31622400000)
    local enqueued = score + 1 - window  -- and the place in the call
    if not at or at == math.floor(enqueued) then
      at, later = enqueued, redis.call('ZCOUNT', ids, '(' .. score, '+inf')
    end
  end
  local is_it = new_id_check(id)
  for _, list in ipairs(at and lists_of(q, client) or {}) do
    local length = redis.call('LLEN', list)
    local envelope, index = seek(q, client, list, length, is_it, at, later)
    if envelope then return envelope, index, length end
  end
end

-- The item near a place, its place in its list of main, and the length of that.
local function near(id, position)
  -- include sizes read_within read_oldest read_waiting found_near
  local envelope, place = found_near(q, id, state, client, position)
  if envelope and state == 'main' then return envelope, select(2, list_at(q, client, place)) end
  return envelope
end

local envelope, before, length
if ARGV[4] == '' then envelope, before, length = sought(ARGV[1], tonumber(ARGV[5]))
else envelope, before, length = near(ARGV[1], tonumber(ARGV[4])) end
if not envelope then return {'MOVED'} end

-- Items with options, counters or a history have a header that must be checked.
local function meta_of()
  -- include sizes stored envelope
  local meta = is_plain(envelope) and {} or parse(q, envelope, '0').meta
  return meta, level_of(meta)
end

-- The token of a claim that has a busy key, the id of its item, how many claims have the key, and what their
-- items cost.
local function holder_of(key)
  -- include keys
  if not key then return '', '', 0, 0 end
  local live, sum = live_tokens(q, redis.call('HGET', q.base .. 'keys', key))
  if #live < most_of_key(q) then return '', '', #live, sum end
  local token = string.match(live[1], '^%S+')
  local busy = q.base .. 'busy:' .. string.match(token, '^(.*)/')
  local held = q.largest <= SMALL_BYTES and redis.call('HGET', busy, token) or ''
  return token, string.match(held, '^cq1[ !](%S+)') or '', #live, sum
end

local of_client = client_of(envelope)
local meta, level = {}, nil
if q.has_keys or q.has_levels then meta, level = meta_of() end
local due = ''
if state ~= 'main' then
  length = redis.call('LLEN', list_of(q, of_client, level))
  before, due = length, redis.call('ZSCORE', q.delayed, envelope)
end
local key = meta.options and meta.options.key
local token, holder, of_key, key_cost = '', '', 0, 0
if q.has_keys then token, holder, of_key, key_cost = holder_of(key) end
local held = busy_count(q)
local function kept()
  -- include kept_from
  return kept_from(q, of_client, held)
end

-- What holds back the items, with the pauses that are about this one, the limit at which its client or its
-- key is, until when, and "client" or "key".
local function holds(config)
  -- include paused held_back cost_of
  local cost = cost_of(envelope)
  local back = held_back(q, held, config, {'queue', 'client ' .. of_client, key and 'key ' .. key}, cost)
  if back[5] == '' then return back, '', '', '' end
  -- include start_limits client_room
  local limits, limit, at = in_force(q, back[5]), '', ''
  if of_client ~= '-' then
    local in_progress = redis.call('HMGET', q.base .. 'in_progress', of_client, 'cost ' .. of_client)
    local busy, sum = setting(in_progress[1], 0, 0, LAST_NUMBER), setting(in_progress[2], 0, 0, LAST_NUMBER)
    limit, at = limit_at(q, limits, 'client', busy, sum, of_client, 0, cost)
  end
  if limit ~= '' or not key then return back, limit, at, 'client' end
  local before_it = tonumber(due) and redis.call('ZLEXCOUNT', q.base .. 'held', '[' .. key .. ' ',
    '(' .. key .. format_text(' %016d', due)) or 0
  limit, at = limit_at(q, limits, 'key', of_key, key_cost, 'key ' .. key, before_it, cost)
  return back, limit, at, 'key'
end
local back, limit, limited_until, limit_of = '', '', '', ''
local config = hold_config(q)
if config then back, limit, limited_until, limit_of = holds(config) end
return {'OK', whole(q.now), envelope, due, before, length, count_in(q, '-') + q.client_items, held,
  back, limit, limited_until, limit_of,
  redis.call('ZCOUNT', q.base .. 'workers', whole(q.now - 20000), '+inf'),
  redis.call('LLEN', q.base .. 'wake') == 0 and 1 or 0, token, holder,
  q.stored_reserve and kept() or 0}
