#!lua flags=no-writes
-- Purpose: one consistent look at a queue: lengths, ages, counters.
-- KEYS: 1 cq:{NAME}:main (LIST); derived: main:CLIENT, their levels (LIST), clients, heads, leases, claims,
--   delayed, failed, workers (ZSET), busy:WORKER, config, starts, pauses, stats, and for neighbours shares
--   (HASH)
-- ARGV: 1 how far to look ahead for delayed items, in ms; 2 what to read too: "neighbours", "workers" or
--   nothing; "alone": neighbours and nothing else
-- Replies: {now, main, busy, delayed, failed, main since, busy since, failed since, next due (ms, or ""),
--   what may hold back the items as in lib/held_back.lua, delayed items that become due within ARGV[1] ms,
--   token of the oldest claim (or ""), id of its item if that is claimed for over a minute and no item had
--   over 64 KiB (or ""), delayed items that are held for their keys, neighbours as in lib/neighbours.lua, up
--   to 100 workers with items in progress if items wait and none was claimed for a minute, up to 1,000
--   workers as in lib/workers.lua, fields and values of stats with NUL between them}; alone: {now, busy,
--   neighbours}. Lists without elements are "", and so is what holds nothing back
-- Cost: O(log delayed + the tokens of the oldest 256 claim calls in the log, ended or not: at most 2,000, and
--   the lists of 64 clients where limits hold per client, and those of paused clients; for neighbours 64
--   items in progress, 2 MiB of them and the one that reaches that, and the scores of 128 clients; while
--   items wait and none was claimed for a minute, the numbers of items of 1,000 workers)
-- include limits numbers clock look has_key_limits keeper levels hold_config

-- The id of the item that is claimed for the longest time is read if that is long, and no item is large.
local LONG_MS, LONG_BYTES, MOST_HOLDERS = 60000, 65536, 100
local stored, stats = redis.call('HGETALL', string.sub(KEYS[1], 1, -5) .. 'stats'), {}
for i = 1, #stored, 2 do stats[stored[i]] = stored[i + 1] end
local q = look_at(KEYS[1], stats)
local held, in_progress = busy_count(q), ''
if (ARGV[2] == 'neighbours' or ARGV[2] == 'alone') and held > 0 and q.client_items > 0 then
  -- include sizes stored oldest neighbours
  in_progress = neighbours(q, held)
end
if ARGV[2] == 'alone' then return {q.now, held, in_progress} end

-- The first score of a set of this many members, or "". Most sets of most queues are empty.
local function first_score(key, size)
  return size > 0 and redis.call('ZRANGE', key, '0', '0', 'WITHSCORES')[2] or ''
end
local in_main, since = count_in(q, '-'), first_score(q.base .. 'heads', q.client_items)
if in_main > 0 then
  -- include stored
  for _, list in ipairs(lists_of(q, '-')) do
    local at = enqueued_at(redis.call('LINDEX', list, '-1') or '')
    if at and (since == '' or tonumber(at) < tonumber(since)) then since = at end
  end
end
local busy_since, oldest_claim, oldest_item, holders, workers, held_by = '', '', '', '', '', nil
if held > 0 then
  -- include claim_calls
  local calls = redis.call('ZRANGE', q.base .. 'claims', '0', '255', 'WITHSCORES')
  local _, at, _, numbers, token = look_through(q, calls, true)
  held_by = numbers
  busy_since, oldest_claim = at or '', token or ''
  if token and q.now - tonumber(at) > LONG_MS and q.largest <= LONG_BYTES then
    local envelope = redis.call('HGET', q.base .. 'busy:' .. string.match(token, '^(.*)/'), token)
    oldest_item = string.match(envelope or '', '^cq1[ !](%S+)') or ''
  end
  -- While items wait and none was claimed for long, all workers that have items have had them for as long.
  if in_main + q.client_items > 0 and q.now - number_in(stats.number, 0, LAST_NUMBER) / 1000 > LONG_MS then
    holders = {}
    for _, name in ipairs(redis.call('ZRANGE', q.base .. 'workers', '0', '999')) do
      if #holders < MOST_HOLDERS and redis.call('HLEN', q.base .. 'busy:' .. name) > 0 then
        holders[#holders + 1] = name
      end
    end
  end
end
local failed_count, delayed_count = redis.call('ZCARD', q.base .. 'failed'), redis.call('ZCARD', q.delayed)
local failed, due = first_score(q.base .. 'failed', failed_count), first_score(q.delayed, delayed_count)
if due ~= '' and tonumber(due) > LAST_MS then due = 'inf' end  -- that of an item that is held for its key
local soon, for_keys, has_limits = 0, 0, has_key_limits(q)
if due ~= '' or has_limits then
  local function soon_of(key)
    return redis.call('ZCOUNT', key, '(' .. whole(q.now + 1), whole(q.now + tonumber(ARGV[1])))
  end
  if due ~= '' then soon = soon_of(q.delayed) end
  if due ~= '' and q.has_keys then
    for_keys = redis.call('ZCOUNT', q.delayed, '(' .. whole(LAST_MS), '+inf')
  end
  if has_limits then  -- what a key's rate holds back is due when it may start: one item of each key
    local start = tonumber(redis.call('ZRANGE', q.base .. 'limited', '0', '0', 'WITHSCORES')[2])
    if start and for_keys > 0 then due = whole(math.min(tonumber(due) or start, start)) end
    soon = soon + soon_of(q.base .. 'limited')
  end
end
if ARGV[2] == 'workers' then
  -- include workers
  workers = workers_from(q.base, '0', '999', held_by)
end
local config, holds = hold_config(q), ''
if config then
  -- include paused held_back
  holds = held_back(q, held, config)
end
return {q.now, in_main + q.client_items, held, delayed_count, failed_count, since, busy_since, failed, due,
  holds, soon, oldest_claim, oldest_item, for_keys, in_progress, holders, workers,
  table.concat(stored, '\0')}
