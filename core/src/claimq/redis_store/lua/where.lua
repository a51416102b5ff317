#!lua flags=no-writes
-- Purpose: where an item that waits stands, and what holds it back, at one instant.
-- KEYS: 1 cq:{NAME}:main (LIST); derived: main:CLIENT, their levels, wake (LIST), clients, delayed, leases,
--   workers (ZSET), busy:WORKER, keys, starts, pauses, shares, config, stats (HASH)
-- ARGV: 1 id, 2 state (main or delayed), 3 client or "-" (of main), 4 position as find returned it, or "" for
--   an item of main that is sought by 5, when it entered main (ms, or "": as its id was enqueued)
-- Replies: {"OK", now, envelope, due (ms, or ""), items of its level that are before it (all of
--   them for a delayed one) and how many there are, all items of main, items in progress (0 if nothing holds
--   back the items and no slots are kept), what holds back the items as in lib/held_back.lua ("": nothing),
--   the limit at which its client or key is and until when (ms; both may be ""), "client" or "key", workers
--   that were seen within 20 s, 1 if no item is before it and one of them waits for an item, token of a claim
--   that has the item's key (or "": it is free), id of its item if no item had over 64 KiB (or ""), how many
--   free slots are kept from its client}; {"MOVED"}: it is not within 100 places of the position, or was not
--   found by the instant
-- Cost: as finding the item by its place; by an instant, that of O(log n) places
-- include limits numbers clock look id_check keeper levels client_of hold_config

local SMALL_BYTES = 65536
local q = look_at(KEYS[1])
local state, client = ARGV[2], ARGV[3]
local config = hold_config(q, 'id_window_ms')

-- The item of main that entered it at this instant, its place in its list, and the length of that. Without an
-- instant: when its producer enqueued its id, until that is forgotten.
local function sought(id, at)
  -- include room enqueued_at seek
  local ids, later = q.base .. 'ids', nil
  local score = redis.call('ZSCORE', ids, id)
  if score then
    local window = setting(config[4], 3600000, 1000, 31622400000)
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

local envelope, before, length
if ARGV[4] == '' then envelope, before, length = sought(ARGV[1], tonumber(ARGV[5]))
else  -- the item near a place, its place in its list of main, and the length of that
  -- include room read_within read_oldest read_waiting found_near
  local place
  envelope, place = found_near(q, ARGV[1], state, client, tonumber(ARGV[4]))
  if envelope and state == 'main' then before, length = select(2, list_at(q, client, place)) end
end
if not envelope then return {'MOVED'} end

local of_client = state == 'main' and client or client_of(envelope)
local meta, level = {}, nil
if q.has_keys or q.has_levels then
  -- include room sizes enqueued_at stored envelope
  -- Items with options, counters or a history have a header that must be checked.
  if not is_plain(envelope) then meta = parse(q, envelope, '0').meta end
  level = level_of(meta)
end
local due = ''
if state ~= 'main' then
  length = redis.call('LLEN', list_of(q, of_client, level))
  before, due = length, redis.call('ZSCORE', q.delayed, envelope)
end
-- The token of a claim that has its key, if that is busy, the id of its item, how many claims have the key,
-- and what their items cost.
local key, token, holder, of_key, key_cost = meta.options and meta.options.key, '', '', 0, 0
if key and q.has_keys then
  -- include keys
  local live
  live, key_cost = live_tokens(q, redis.call('HGET', q.base .. 'keys', key))
  of_key = #live
  if of_key >= most_of_key(q) then
    token = string.match(live[1], '^%S+')
    local busy = q.base .. 'busy:' .. string.match(token, '^(.*)/')
    local held = q.largest <= SMALL_BYTES and redis.call('HGET', busy, token) or ''
    holder = string.match(held, '^cq1[ !](%S+)') or ''
  end
end
local held = (config.may_hold or q.stored_reserve) and busy_count(q) or 0
local kept = 0
if q.stored_reserve then
  -- include kept_from
  kept = kept_from(q, of_client, held)
end

-- What holds back the items, with the pauses that are about this one, the limit at which its client or its
-- key is, until when, and "client" or "key".
local back, limit, limited_until, limit_of = '', '', '', ''
if config.may_hold then
  -- include paused held_back cost_of
  local cost = cost_of(envelope)
  back = held_back(q, held, config, {'queue', 'client ' .. of_client, key and 'key ' .. key}, cost)
  if back[5] ~= '' then
    -- include start_limits cost_bounds client_room
    local limits = in_force(q, back[5])
    limit_of = 'client'
    if of_client ~= '-' then
      local counts = redis.call('HMGET', q.base .. 'in_progress', of_client, 'cost ' .. of_client)
      local busy, sum = setting(counts[1], 0, 0, LAST_NUMBER), setting(counts[2], 0, 0, LAST_NUMBER)
      limit, limited_until = limit_at(q, limits, 'client', busy, sum, of_client, 0, cost)
    end
    if limit == '' and key then
      local before_it = tonumber(due) and redis.call('ZLEXCOUNT', q.base .. 'held', '[' .. key .. ' ',
        '(' .. key .. format_text(' %016d', due)) or 0
      limit, limited_until = limit_at(q, limits, 'key', of_key, key_cost, 'key ' .. key, before_it, cost)
      limit_of = 'key'
    end
  end
end
return {'OK', q.now, envelope, due, before, length, count_in(q, '-') + q.client_items, held,
  back, limit, limited_until, limit_of,
  redis.call('ZCOUNT', q.base .. 'workers', whole(q.now - 20000), '+inf'),
  before == 0 and redis.call('LLEN', q.base .. 'wake') == 0 and 1 or 0, token, holder, kept}
