#!lua flags=allow-oom
-- Purpose: repairs in small bounded steps what a crash, another Redis client or a lost key left: work without
--   a wake token, items in busy without a lease, workers that have claims and are missing in workers, leases
--   that end too late, leases without KEEPER, a bare payload at the head of main, the lists of priorities,
--   failed items without their index and the reverse, clients that the ring has lost, the counts of clients'
--   items and of adopted payloads; and forgets ended claim calls, old ids and workers not seen for an hour.
-- KEYS: 1 cq:{NAME}:main (LIST); derived: main:CLIENT, their levels, clients, wake (LIST), heads, leases,
--   claims, workers, failed, ids (ZSET), busy:WORKER, failed:items, config, levels, exclusive, stats (HASH)
-- ARGV: 1 limit of each kind of repair (at most 256)
-- Replies: {"OK", leases given to items that had none or one that ends too late, 0|1 whether more claim calls
--   may have ended}
-- Cost: O(limit log n), and counting the items of 1,000 clients where there are more
-- include limits queue types counts sizes slices keeper touch close wake stored envelope levels unknown
-- include forget scan claim_calls repair

local REPAIRS = 256  -- with 1,000, a queue that needs all repairs at once blocked the server for up to 30 ms
local q = open(KEYS[1], {'HDEL', 'HINCRBY', 'HSET', 'LPUSH', 'LSET', 'ZADD', 'ZREM'})
local limit = math.min(count_of(ARGV[1], 1), REPAIRS)
local stats, leases, workers, claims = q.stats, q.leases, q.workers, q.base .. 'claims'
local has_lost_levels = redis.call('HLEN', q.base .. 'levels') > 0 and not q.has_levels
if has_lost_levels then q.has_levels = true end
local has_lost_keys = redis.call('HLEN', q.base .. 'exclusive') > 0 and not q.has_exclusive
local in_main, tokens_left = count_in(q, '-'), redis.call('LLEN', q.base .. 'wake')
local old_ids = redis.call('ZRANGEBYSCORE', q.base .. 'ids', '-inf', whole(q.now), 'LIMIT', 0, whole(limit))
local quiet = redis.call('ZRANGEBYSCORE', workers, '-inf', whole(q.now - 3600000), 'LIMIT', 0, 10)
local at = redis.call('HMGET', stats, 'repair_worker', 'repair_cursor', 'repair_call')
local expiry = lease_ms(redis.call('HGET', q.config, 'busy_expiry_ms'))
expect_zset(leases)

-- Claim calls that have ended: one page of the log after the other, so that one long claim does not keep the
-- rest.
local rank_of_page = rank_in(at[3])
local page = redis.call('ZRANGE', claims, whole(rank_of_page), whole(rank_of_page + limit - 1), 'WITHSCORES')
local ended, _, looked, held = look_through(q, page, false)
local unknown = {}
for name, count in pairs(held) do
  if count > 0 and not redis.call('ZSCORE', workers, name) then unknown[#unknown + 1] = name end
end
local next_page = looked < limit and #page < 2 * limit and 0 or rank_of_page + looked - #ended

-- Items in busy without a lease, one worker's hash after the other.
local rank = at[1] and redis.call('ZRANK', workers, at[1])
local worker, cursor, to_lease = redis.call('ZRANGE', workers, whole(rank or 0), whole(rank or 0))[1],
  cursor_in(rank and at[2]), {}
if worker then
  cursor = scan(q, q.base .. 'busy:' .. worker, cursor, limit, function(token)
    if not redis.call('ZSCORE', leases, token) then to_lease[#to_lease + 1] = token end
  end)
  if cursor == '0' then
    worker = redis.call('ZRANGE', workers, whole((rank or 0) + 1), whole((rank or 0) + 1))[1] or ''
  end
end
-- Leases that end later than any lease that a script gives: they get a new end, like items without a lease.
for _, token in ipairs(redis.call('ZRANGEBYSCORE', leases, '(' .. whole(q.now + LONGEST_LEASE_MS), '+inf',
  'LIMIT', 0, whole(limit + 1))) do
  if token ~= KEEPER then to_lease[#to_lease + 1] = token end
end
local has_lost_keeper = redis.call('ZCARD', leases) + #to_lease > 0
  and not redis.call('ZSCORE', leases, KEEPER)
local failed, ring = check_failed(q, limit), check_ring(q, limit)
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
if next_page ~= rank_of_page then redis.call('HSET', stats, 'repair_call', whole(next_page)) end
for _, name in ipairs(unknown) do redis.call('ZADD', workers, whole(q.now), name) end
if has_lost_keeper then redis.call('ZADD', leases, '+inf', KEEPER) end
for _, token in ipairs(to_lease) do redis.call('ZADD', leases, whole(q.now + expiry), token) end
if worker and (worker ~= at[1] or cursor ~= at[2]) then
  redis.call('HSET', stats, 'repair_worker', worker, 'repair_cursor', cursor)
end
for _, id in ipairs(old_ids) do redis.call('ZREM', q.base .. 'ids', id) end
for _, name in ipairs(idle) do redis.call('ZREM', workers, name) end
if has_lost_levels then redis.call('HSET', stats, 'levels', '1') end
if has_lost_keys then redis.call('HSET', stats, 'exclusive', '1') end
if adopted then
  redis.call('LSET', q.main, -1, adopted)
  note_size(q, #adopted)
end
local repaired_count = repair_failed(q, failed) + repair_ring(q, ring)
  + (has_lost_levels and 1 or 0) + (has_lost_keys and 1 or 0)
  + (has_lost_keeper and 1 or 0) + #unknown
if in_main + q.client_items > 0 and tokens_left == 0 then leave_wake_token(q) end
if adopted or #to_lease + repaired_count + taken > 0 then
  close(q, {repaired = #to_lease + repaired_count, adopted = adopted and 1 or taken})
else touch(q) end
return {'OK', #to_lease, #ended >= limit and 1 or 0}
