#!lua flags=allow-oom
-- Purpose: removes, in small bounded steps, what calls and workers leave behind: work without a wake
--   token, ended claim calls, old ids, workers not seen for an hour. Gives a bare payload at the head of
--   main its header, counts payloads that were taken for items, and ends leases that are too long. Sets
--   the marks of queues with priorities and with exclusive keys, which a promise depends on. damage.lua
--   reports other damage to keys.
-- KEYS: 1 cq:{NAME}:main (LIST); derived: main:CLIENT, their levels, wake (LIST), leases, claims,
--   workers, failed, ids (ZSET), busy:WORKER, config, levels, exclusive, stats (HASH)
-- ARGV: 1 limit of each kind of repair (at most 256)
-- Replies: {"OK", leases that ended too late and got a new end, 0|1 whether more claim calls may have
--   ended}
-- Cost: O(limit log n)
-- include limits queue counts sizes slices keeper touch close wake stored envelope levels unknown
-- include claim_calls

local REPAIRS = 256  -- with 1,000, a queue that needs all repairs at once blocked the server for up to 30 ms
local q = open(KEYS[1], {'HINCRBY', 'HSET', 'LPUSH', 'LSET', 'ZADD', 'ZREM'})
local limit = math.min(count_of(ARGV[1], 1), REPAIRS)
local stats, leases, workers, claims = q.stats, q.leases, q.workers, q.base .. 'claims'
local has_lost_levels = redis.call('HLEN', q.base .. 'levels') > 0 and not q.has_levels
if has_lost_levels then q.has_levels = true end
local has_lost_keys = redis.call('HLEN', q.base .. 'exclusive') > 0 and not q.has_exclusive
local in_main, tokens_left = count_in(q, '-'), redis.call('LLEN', q.base .. 'wake')
local old_ids = redis.call('ZRANGEBYSCORE', q.base .. 'ids', '-inf', whole(q.now), 'LIMIT', 0, whole(limit))
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

-- All is read; now write.
sliced(ended, function(...) redis.call('ZREM', claims, ...) end)
if next_rank ~= rank then redis.call('HSET', stats, 'repair_call', whole(next_rank)) end
for _, token in ipairs(too_late) do redis.call('ZADD', leases, whole(q.now + expiry), token) end
for _, id in ipairs(old_ids) do redis.call('ZREM', q.base .. 'ids', id) end
for _, name in ipairs(idle) do redis.call('ZREM', workers, name) end
if has_lost_levels then redis.call('HSET', stats, 'levels', '1') end
if has_lost_keys then redis.call('HSET', stats, 'exclusive', '1') end
if adopted then
  redis.call('LSET', q.main, -1, adopted)
  note_size(q, #adopted)
end
local repaired = #too_late + (has_lost_levels and 1 or 0) + (has_lost_keys and 1 or 0)
if in_main + q.client_items > 0 and tokens_left == 0 then leave_wake_token(q) end
if adopted or repaired + taken > 0 then close(q, {repaired = repaired, adopted = adopted and 1 or taken})
else touch(q) end
return {'OK', #too_late, #ended >= limit and 1 or 0}
