#!lua flags=no-writes
-- Purpose: one consistent look at a queue, or at each of several: lengths, ages, counters.
-- KEYS: cq:{NAME}:main (LIST) of each queue; derived: main:CLIENT, their levels (LIST), clients, heads,
--   leases, claims, delayed, failed, workers (ZSET), busy:WORKER, config, starts, pauses, stats, and for
--   neighbours shares (HASH)
-- ARGV: 1 how many of KEYS are queues (on a cluster a key that never exists follows); 2 how far to look
--   ahead for delayed items, in ms; 3 what to read too: "neighbours", "workers" or nothing; "alone":
--   neighbours and nothing else
-- Replies: for each queue {now, main, busy, delayed, failed, main since, busy since, failed since, next due
--   (ms, or ""), what may hold back the items as in lib/held_back.lua, delayed items that become due within
--   ARGV[2] ms, token of the oldest claim (or ""), id of its item if that is claimed for over a minute and no
--   item had over 64 KiB (or ""), delayed items that are held for their keys, neighbours as in
--   lib/neighbours.lua, up to 100 workers with items in progress if items wait and none was claimed for a
--   minute, up to 1,000 workers as in lib/workers.lua, fields and values of stats with NUL between them};
--   alone: {now, busy, neighbours}. Lists without elements are "", and so is what holds nothing back
-- Cost: for each queue O(log delayed + the tokens of the oldest 256 claim calls in the log, ended or not: at
--   most 2,000, and the lists of 64 clients where limits hold per client, and those of paused clients; for
--   neighbours 64 items in progress, 2 MiB of them and the one that reaches that, and the scores of 128
--   clients; while items wait and none was claimed for a minute, the numbers of items of 1,000 workers)
-- include limits numbers clock look has_key_limits keeper levels hold_config enqueued_at claim_calls

-- The id of the item that is claimed for the longest time is read if that is long, and no item is large.
local LONG_MS, LONG_BYTES, MOST_HOLDERS = 60000, 65536, 100
local look_ahead_ms, what, time = ARGV[2], ARGV[3], redis.call('TIME')

-- The first score of a set of this many members, or "". Most sets of most queues are empty.
local function first_score(key, size)
  return size > 0 and redis.call('ZRANGE', key, '0', '0', 'WITHSCORES')[2] or ''
end

-- Since when the oldest item of main waits (ms, or "").
local function waits_since(q, in_main)
  local since = first_score(q.base .. 'heads', q.client_items)
  if in_main == 0 then return since end
  for _, list in ipairs(lists_of(q, '-')) do
    local at = enqueued_at(redis.call('LINDEX', list, '-1') or '')
    if at and (since == '' or tonumber(at) < tonumber(since)) then since = at end
  end
  return since
end

-- Since when the oldest claim is in progress (ms), its token, and the id of its item if that is read; each
-- may be "". And the table of lib/claim_calls.lua of the workers that it met.
local function oldest_in_progress(q)
  local calls, id = redis.call('ZRANGE', q.base .. 'claims', '0', '255', 'WITHSCORES'), ''
  local _, at, _, held_by, token = look_through(q, calls, true)
  if token and q.now - tonumber(at) > LONG_MS and q.largest <= LONG_BYTES then
    local envelope = redis.call('HGET', q.base .. 'busy:' .. string.match(token, '^(.*)/'), token)
    id = string.match(envelope or '', '^cq1[ !](%S+)') or ''
  end
  return at or '', token or '', id, held_by
end

-- The first MOST_HOLDERS workers that have items in progress.
local function holders_of(q)
  local holders = {}
  for _, name in ipairs(redis.call('ZRANGE', q.base .. 'workers', '0', '999')) do
    if #holders < MOST_HOLDERS and redis.call('HLEN', q.base .. 'busy:' .. name) > 0 then
      holders[#holders + 1] = name
    end
  end
  return holders
end

-- When the next delayed item is due (ms, or ""), how many become due soon, and how many are held for their
-- keys.
local function delayed_of(q, count)
  local due, has_limits = first_score(q.delayed, count), has_key_limits(q)
  if due == '' and not has_limits then return '', 0, 0 end
  local soon, for_keys = 0, 0
  local function soon_of(key)
    return redis.call('ZCOUNT', key, '(' .. whole(q.now + 1), whole(q.now + look_ahead_ms))
  end
  if due ~= '' then
    if tonumber(due) > LAST_MS then due = 'inf' end  -- that of an item that is held for its key
    soon = soon_of(q.delayed)
    if q.has_keys then for_keys = redis.call('ZCOUNT', q.delayed, '(' .. whole(LAST_MS), '+inf') end
  end
  if has_limits then  -- what a key's rate holds back is due when it may start: one item of each key
    local start = tonumber(redis.call('ZRANGE', q.base .. 'limited', '0', '0', 'WITHSCORES')[2])
    if start and for_keys > 0 then due = whole(math.min(tonumber(due) or start, start)) end
    soon = soon + soon_of(q.base .. 'limited')
  end
  return due, soon, for_keys
end

local function held_back_of(q, held)
  local config = hold_config(q)
  if not config.may_hold then return '' end
  -- include paused held_back
  return held_back(q, held, config)
end

local function neighbours_of(q, held)
  if held == 0 or q.client_items == 0 then return '' end
  -- include room oldest neighbours
  return neighbours(q, held)
end

local function workers_of(q, held_by)
  -- include workers
  return workers_from(q.base, '0', '999', held_by)
end

local function snapshot_of(main_key)
  local stored, stats = redis.call('HGETALL', string.sub(main_key, 1, -5) .. 'stats'), {}
  for i = 1, #stored, 2 do stats[stored[i]] = stored[i + 1] end
  if stats.limits then  -- the reply has NUL between the fields, as the levels have; no reader needs them
    for i = 1, #stored, 2 do if stored[i] == 'limits' then stored[i + 1] = '' end end
  end
  local q = look_at(main_key, time, stats)
  local held = busy_count(q)
  local in_progress = (what == 'neighbours' or what == 'alone') and neighbours_of(q, held) or ''
  if what == 'alone' then return {q.now, held, in_progress} end
  local in_main, busy_since, oldest_claim, oldest_item, holders, held_by = count_in(q, '-'), '', '', '', ''
  local waiting = in_main + q.client_items
  if held > 0 then
    busy_since, oldest_claim, oldest_item, held_by = oldest_in_progress(q)
    -- While items wait and none was claimed for long, all workers that have items have had them for as long.
    local claimed_at = number_in(stats.number, 0, LAST_NUMBER) / 1000
    if waiting > 0 and q.now - claimed_at > LONG_MS then holders = holders_of(q) end
  end
  local failed, delayed = redis.call('ZCARD', q.base .. 'failed'), redis.call('ZCARD', q.delayed)
  local due, soon, for_keys = delayed_of(q, delayed)
  return {q.now, waiting, held, delayed, failed, waits_since(q, in_main), busy_since,
    first_score(q.base .. 'failed', failed), due, held_back_of(q, held), soon, oldest_claim, oldest_item,
    for_keys, in_progress, holders, what == 'workers' and workers_of(q, held_by) or '',
    table.concat(stored, '\0')}
end

local reply = {}
for i = 1, tonumber(ARGV[1]) do reply[i] = snapshot_of(KEYS[i]) end
return reply
