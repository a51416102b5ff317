#!lua flags=allow-oom
-- Purpose: removes, in small bounded steps, what calls and workers leave behind: work without a wake
--   token, ended claim calls, old ids, workers not seen for an hour. Gives a bare payload at the head of
--   main its header, counts payloads that were taken for items, and ends leases that are too long. Sets
--   the marks of queues with priorities and with keys, which a promise depends on. Counts the
--   reasons of up to 256 failed items again if the counts are lost, and ends counts of delayed items while
--   none is delayed, and counts of bytes that cannot be right. Removes shares of clients that are gone
--   and levels of clients that are at no limit, and gives clients that the ring has lost while it parked
--   some their turns back. Gives bare payloads a mean size, and removes counts of bytes that are of no use.
--   damage.lua reports other damage to keys.
-- KEYS: 1 cq:{NAME}:main (LIST); derived: main:CLIENT, their levels, wake (LIST), clients, heads,
--   leases, claims, workers, delayed, failed, ids (ZSET), failed:reasons, delayed:clients, busy:WORKER,
--   config, levels, keys, starts, shares, turns, stats (HASH)
-- ARGV: 1 limit of each kind of repair (at most 256); four times as many ids are removed
-- Replies: {"OK", leases that ended too late and got a new end, 0|1 whether more claim calls may have
--   ended, more ids are old, or more held items go on}
-- Cost: O(limit log n)
-- include limits numbers clock queue counts room sizes slices keeper touch close wake enqueued_at stored
-- include envelope levels unknown claim_calls reasons

local REPAIRS = 256  -- with 1,000, a queue that needs all repairs at once blocked the server for up to 30 ms
local q = open(KEYS[1], {'DEL', 'HDEL', 'HINCRBY', 'HSET', 'LPUSH', 'LSET', 'LTRIM', 'RPUSH', 'ZADD', 'ZREM'})
local limit = math.min(count_of(ARGV[1], 1), REPAIRS)
local stats, leases, workers, claims = q.stats, q.leases, q.workers, q.base .. 'claims'
local has_lost_levels = redis.call('HLEN', q.base .. 'levels') > 0 and not q.has_levels
if has_lost_levels then q.has_levels = true end
local has_lost_keys = redis.call('HLEN', q.base .. 'keys') + redis.call('ZCARD', q.base .. 'held') > 0
  and not q.has_keys
-- Counts of bytes that another client has changed, or that are lost, begin again.
-- include weights set_bound scan
local counts = q.weighs and read_weights(q.bound)
local unweighed = counts and count_in(q, '-') + q.client_items + redis.call('ZCARD', q.delayed) - counts[1]
  - counts[3]
if counts and (not string.find(q.bound, '^%d+ %d+ %d+ %d+ %d+ %d+$') or unweighed < 0) then
  q.weighs = false
end
local bound = bound_for(q, function(field) return redis.call('HGET', q.config, field) or '' end)
local has_old_counts = busy_count(q) == 0 and redis.call('HLEN', q.base .. 'in_progress') > 0
-- Nothing waited when the bound was set, so pushed payloads have no mean size yet: that of two of them.
if q.weighs and unweighed > 0 and counts[6] == 0 then
  local newest, oldest = redis.call('LINDEX', q.main, 0) or '', redis.call('LINDEX', q.main, -1) or ''
  weights_of(q).mean = math.ceil((#newest + #oldest) / 2)
end
-- Counts of clients that set_bound() has left.
local old_weights, cursor = {}, nil
if (bound or '1') == '1' and redis.call('HLEN', q.base .. 'bytes') > 0 then
  cursor = string.match(redis.call('HGET', stats, 'repair_bytes') or '', '^%d+$') or '0'
  cursor = scan(q, q.base .. 'bytes', cursor, 4 * limit,
    function(client) old_weights[#old_weights + 1] = client end)
end
local has_lost_delayed = redis.call('ZCARD', q.delayed) == 0
  and redis.call('HLEN', q.base .. 'delayed:clients') > 0
local in_main, tokens_left = count_in(q, '-'), redis.call('LLEN', q.base .. 'wake')
local most_ids = math.min(4 * limit, CALL_ITEMS)
local old_ids = redis.call('ZRANGEBYSCORE', q.base .. 'ids', '-inf', whole(q.now), 'LIMIT', 0,
  whole(most_ids))
local quiet = redis.call('ZRANGEBYSCORE', workers, '-inf', whole(q.now - 3600000), 'LIMIT', 0, 10)
local expiry = lease_ms(redis.call('HGET', q.config, 'busy_expiry_ms'))

-- Claim calls that have ended: one page of the log after the other, so that one long claim does not keep
-- the rest. Another client may have set the rank.
local rank = math.floor(number_in(redis.call('HGET', stats, 'repair_call'), 0, LAST_NUMBER))
local page = redis.call('ZRANGE', claims, whole(rank), whole(rank + limit - 1), 'WITHSCORES')
local ended, _, looked = look_through(q, page, false)
local next_rank = looked < limit and #page < 2 * limit and 0 or rank + looked - #ended

-- Leases that end later than any lease that a script gives: they get a new end.
local latest, too_late = whole(q.now + LONGEST_LEASE_MS), {}
local beyond = redis.call('ZRANGEBYSCORE', leases, '(' .. latest, '+inf', 'LIMIT', 0, whole(limit + 1))
for _, token in ipairs(beyond) do
  if token ~= KEEPER then too_late[#too_late + 1] = token end
end
local idle = {}
for _, name in ipairs(quiet) do
  if redis.call('HLEN', q.base .. 'busy:' .. name) == 0 then idle[#idle + 1] = name end
end
local bare = redis.call('LINDEX', q.main, -1)
local adopted = bare and not enqueued_at(bare) and format(parse(q, bare, 'a' .. whole(q.seq)))
-- Payloads of other clients that began like the header of an item were taken for one, uncounted. While
-- nothing is in main, no other item is unknown.
local taken = in_main + q.client_items == 0 and math.max(unknown_in_main(q) or 0, 0) or 0

-- Reasons of failed items whose counts do not add up to all failed items: the key is lost, or another client
-- has removed items.
local reasons, in_failed = redis.call('HGETALL', q.base .. 'failed:reasons'), redis.call('ZCARD', q.base
  .. 'failed')
local counted, names = 0, {}
for i = 1, #reasons, 2 do names[#names + 1], counted = reasons[i], counted + count_in_hash(reasons[i + 1]) end
local recounts = counted ~= in_failed and in_failed <= REPAIRS
for _, id in ipairs(recounts and redis.call('ZRANGE', q.base .. 'failed', 0, -1) or {}) do
  local envelope = redis.call('HGET', q.base .. 'failed:items', id)
  count_reason(q, reason_in(envelope), 1)
  recounts = recounts and has_room(q, #(envelope or ''))
end

-- Held items that no end of a claim releases, since their key is free, and those that cq:{NAME}:held has
-- lost: one page after the other. Returns how many were lost.
local function repair_held()
  -- include read_within keys may_go paused release
  local has_pauses = next_pause_end(redis.call('HGET', q.config, 'pauses'))
  local from, last, lost, free = redis.call('HGET', stats, 'repair_held'), nil, 0, {}
  from = math.max(number_in(from, 0, LAST_NUMBER), LAST_MS)
  local page = read_within(q, limit, function(skip, count)
    return redis.call('ZRANGE', q.delayed, '(' .. whole(from), whole(LAST_NUMBER), 'BYSCORE', 'LIMIT',
      whole(skip), whole(count))
  end)
  for _, envelope in ipairs(page) do
    local key = key_of_item(envelope)
    last = redis.call('ZSCORE', q.delayed, envelope)
    if key then
      lost = lost + redis.call('ZADD', q.base .. 'held', '0', held_entry(key, tonumber(last)))
      if may_go(q, key) and not (has_pauses and paused_until(q, 'key ' .. key)) then free[#free + 1] = key end
    end
  end
  local has_more = #page == limit or not has_room(q, 0)
  if last or from > LAST_MS then redis.call('HSET', stats, 'repair_held', has_more and last or '0') end
  return lost, release(q, free)
end

-- Levels of clients whose starts count no longer: one page after the other, while no temporary limits hold.
local function old_starts()
  -- include start_limits
  local key, text = q.base .. 'starts', redis.call('HGET', q.config, 'limits') or ''
  local limits = string.match(text, '^[^|]*')
  if redis.call('HLEN', key) == 0 or in_force(q, text) ~= limits then return {}, '0' end
  local from, gone = redis.call('HGET', stats, 'repair_starts') or '0', {}
  local of_client, of_key = limits_of(limits, 'client'), limits_of(limits, 'key')
  local page = redis.call('HSCAN', key, string.match(from, '^%d+$') or '0', 'COUNT', whole(limit))
  for i = 1, #page[2], 2 do
    local level = 0
    for _, rate in ipairs(string.find(page[2][i], ' ', 1, true) and of_key or of_client) do
      read_level(q, rate, page[2][i + 1])
      level = level + rate.level
    end
    if level == 0 then gone[#gone + 1] = page[2][i] end
  end
  return gone, page[1], from
end

-- Clients that the ring has lost while it parked some: one page of the others after the other.
local function lost_clients()
  -- include tags entry_tags
  local size = redis.call('ZCARD', q.heads)
  local in_ring = redis.call('ZCARD', q.clients) - (redis.call('ZSCORE', q.clients, '-') and 1 or 0)
  if size <= in_ring then return {} end
  local rank = q.seq % math.ceil(size / limit) * limit
  local names, back = redis.call('ZRANGE', q.heads, whole(rank), whole(rank + limit - 1)), {}
  local tags = #names > 0 and redis.call('ZMSCORE', q.clients, unpack(names))
  for i, name in ipairs(names) do
    if not tags[i] and count_in(q, name) > 0 then back[#back + 1] = name end
  end
  return entry_tags(q, back)
end
local gone, starts_at, starts_from = old_starts()
local lost = q.limits and string.byte(q.limits, 2) == 124 and lost_clients() or {}

-- Counts of items in progress while no claim has a lease; items that lost theirs are counted again.
local function forget_counts()
  -- include count_again
  redis.call('DEL', q.base .. 'in_progress')
  count_again(q)
end

local function end_shares()
  -- include sweep_shares
  sweep_shares(q, ended, limit)
end

-- All is read; now write.
if #gone > 0 then redis.call('HDEL', q.base .. 'starts', unpack(gone)) end
if starts_from and starts_at ~= starts_from then redis.call('HSET', stats, 'repair_starts', starts_at) end
if #lost > 0 then redis.call('ZADD', q.clients, unpack(lost)) end
sliced(ended, function(...) redis.call('ZREM', claims, ...) end)
if q.turns then end_shares() end
if next_rank ~= rank then redis.call('HSET', stats, 'repair_call', whole(next_rank)) end
if recounts then
  sliced(names, function(...) redis.call('HDEL', q.base .. 'failed:reasons', ...) end)
  write_reasons(q)
end
for _, token in ipairs(too_late) do redis.call('ZADD', leases, whole(q.now + expiry), token) end
sliced(old_ids, function(...) redis.call('ZREM', q.base .. 'ids', ...) end)
for _, name in ipairs(idle) do redis.call('ZREM', workers, name) end
if has_lost_levels then redis.call('HSET', stats, 'levels', '1') end
if has_lost_keys then redis.call('HSET', stats, 'keys', '1') end
if adopted then
  redis.call('LSET', q.main, -1, adopted)
  if q.weighs then weigh(q, MAIN, {adopted}, 1) end
  note_size(q, #adopted)
end
set_bound(q, bound)
if has_old_counts then forget_counts() end
if cursor then
  sliced(old_weights, function(...) redis.call('HDEL', q.base .. 'bytes', ...) end)
  redis.call('HSET', stats, 'repair_bytes', cursor)
end
if has_lost_delayed then redis.call('DEL', q.base .. 'delayed:clients') end
local unheld, released, are_left = 0, 0, false
if q.has_keys or has_lost_keys then unheld, released, are_left = repair_held() end
local repaired = unheld + #lost / 2 + #too_late + (has_lost_levels and 1 or 0) + (has_lost_keys and 1 or 0)
if in_main + q.client_items + released > 0 and tokens_left == 0 then leave_wake_token(q) end
if adopted or repaired + taken + released > 0 then
  close(q, {repaired = repaired, adopted = adopted and 1 or taken})
else
  touch(q)
  if q.weights then redis.call('HSET', stats, 'bound', write_weights(q)) end
end
return {'OK', #too_late, (#ended >= limit or #old_ids >= most_ids or are_left
  or starts_at ~= '0' and #gone >= limit / 2) and 1 or 0}
