#!lua flags=allow-oom
-- Purpose: removes all items of one client that wait in main. Those that are busy, delayed or failed stay.
-- KEYS: 1 cq:{NAME}:main; derived: main:CLIENT, their levels, clients (LIST), heads (ZSET), levels, stats,
--   calls:INSTANCE (HASH)
-- ARGV: 1 instance, 2 lane, 3 call number, 4 client
-- Replies: {"OK", number of items removed}; {"STALE"}. Without any item nothing is written.
-- Cost: the server frees the items in the background (up to 64 of them at once), and searches a ring of up to
--   500,000 entries
-- include limits queue types touch close call levels forget lengths leave_ring

local q = open(KEYS[1], {'HDEL', 'HINCRBY', 'HSET', 'LREM', 'PEXPIRE', 'UNLINK', 'ZREM'})
local again = kept_reply(q)
if again then return again end
local client = ARGV[4]
local count = length_of(q, client)
expect_hash(q.base .. 'levels')
if count == 0 then return {'OK', '0'} end
redis.call('UNLINK', unpack(lists_of(q, client)))
leave_ring(q, client)
forget(q, {client})
close(q, {client_items = -count, flushed = count})
local text = whole(count)
keep_reply(q, text)
return {'OK', text}
