#!lua flags=no-writes
-- Purpose: one consistent look at a queue: lengths, ages, counters.
-- KEYS: 1 cq:{NAME}:main (LIST); derived: main:CLIENT, their levels (LIST), clients, heads, leases, claims,
--   delayed, failed (ZSET), config, starts, pauses, stats, and for neighbours shares, busy:WORKER (HASH)
-- ARGV: 1 how far to look ahead for delayed items, in ms; 2 whether to look for neighbours (1, or nothing)
-- Replies: {now, main, busy, delayed, failed, main since, busy since, failed since, next due (ms, or ""),
--   what holds back the items as in lib/held_back.lua, delayed items that become due within ARGV[1] ms, token
--   of the oldest claim (or ""), id of its item if that is claimed for over a minute and no item had over 64
--   KiB (or ""), delayed items that are held for their keys, neighbours as in lib/neighbours.lua, workers
--   with items in progress as in holders() below, stats...}
-- Cost: O(log delayed + the tokens of the oldest 256 claim calls in the log, ended or not: at most 2,000, and
--   the lists of 64 clients where limits hold per client, and those of paused clients; for neighbours 64
--   items in progress, 2 MiB of them and the one that reaches that, and the scores of 128 clients; while
--   items wait and none was claimed for a minute, the numbers of items of 1,000 workers)
-- include limits queue look sizes keeper stored levels oldest paused held_back

-- The id of the item that is claimed for the longest time is read if that is long, and no item is large.
local LONG_MS, LONG_BYTES = 60000, 65536
local q, stats = look_at(KEYS[1])
-- The first score of a set of this many members, or "". Most sets of most queues are empty.
local function first_score(key, size)
  return size > 0 and redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2] or ''
end
local in_main, since = count_in(q, '-'), first_score(q.heads, q.client_items)
local oldest = in_main > 0 and enqueued_at(oldest_of(q, '-') or '')
if oldest and (since == '' or tonumber(oldest) < tonumber(since)) then since = oldest end
local held, busy_since, oldest_claim, oldest_item = busy_count(q), '', '', ''
if held > 0 then
  -- include claim_calls
  local calls = redis.call('ZRANGE', q.base .. 'claims', 0, 255, 'WITHSCORES')
  local _, at, _, _, token = look_through(q, calls, true)
  busy_since, oldest_claim = at or '', token or ''
  if token and q.now - tonumber(at) > LONG_MS and q.largest <= LONG_BYTES then
    local envelope = redis.call('HGET', q.base .. 'busy:' .. string.match(token, '^(.*)/'), token)
    oldest_item = string.match(envelope or '', '^cq1[ !](%S+)') or ''
  end
end
local failed_count, delayed_count = redis.call('ZCARD', q.base .. 'failed'), redis.call('ZCARD', q.delayed)
local failed, due = first_score(q.base .. 'failed', failed_count), first_score(q.delayed, delayed_count)
if due ~= '' and tonumber(due) > LAST_MS then due = 'inf' end  -- that of an item that is held for its key
local function soon_of(key)
  return redis.call('ZCOUNT', key, '(' .. whole(q.now + 1), whole(q.now + tonumber(ARGV[1])))
end
local soon = due == '' and 0 or soon_of(q.delayed)
local for_keys = due ~= '' and q.has_keys
  and redis.call('ZCOUNT', q.delayed, '(' .. whole(LAST_MS), '+inf') or 0
if has_key_limits(q) then  -- what a key's rate holds back is due when it may start: one item of each key
  local start = tonumber(redis.call('ZRANGE', q.base .. 'limited', 0, 0, 'WITHSCORES')[2])
  if start and for_keys > 0 then due = whole(math.min(tonumber(due) or start, start)) end
  soon = soon + soon_of(q.base .. 'limited')
end
local function neighbours_of()
  -- include neighbours
  return neighbours(q, held)
end
-- The workers that have items in progress, while items wait and none was claimed for long: so all of these
-- have had theirs for as long.
local MOST_HOLDERS = 100
local function holders()
  local names = {}
  if in_main + q.client_items == 0 or q.now - q.totals.number / 1000 <= LONG_MS then return names end
  for _, name in ipairs(redis.call('ZRANGE', q.workers, 0, 999)) do
    if #names < MOST_HOLDERS and redis.call('HLEN', q.base .. 'busy:' .. name) > 0 then
      names[#names + 1] = name
    end
  end
  return names
end
return {whole(q.now), in_main + q.client_items, held, delayed_count, failed_count, since, busy_since, failed,
  due, held_back(q, held), soon, oldest_claim, oldest_item, for_keys,
  ARGV[2] == '1' and held > 0 and q.client_items > 0 and neighbours_of() or {},
  held > 0 and holders() or {}, unpack(stats)}
