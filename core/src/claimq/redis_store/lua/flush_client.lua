#!lua flags=allow-oom
-- Purpose: removes all items of one client that wait in main. Those that are busy, delayed or failed stay.
--   Where items are held for their keys, the next claims let the first one of each key go.
-- KEYS: 1 cq:{NAME}:main; derived: main:CLIENT, their levels, wake (LIST), clients, heads, held (ZSET),
--   levels, stats, calls:INSTANCE (HASH)
-- ARGV: 1 instance, 2 lane, 3 call number, 4 client
-- Replies: {"OK", number of items removed}; {"STALE"}. Without any item nothing is written.
-- Cost: O(log clients); the server frees the items in the background (up to 64 of them at once)
-- include limits numbers clock queue types touch sizes close wake call levels forget tags lengths
-- include weigh_out

-- The client's bytes in main leave with its items.
local function leave_main(q, client)
  -- include weights
  local counts = read_weights(redis.pcall('HGET', q.base .. 'bytes', client))
  local weights = weights_of(q)
  q.end_number = end_number
  weights.clients[client] = {-counts[1], -counts[2], 0, 0}
  for i = 1, 2 do weights.all[i] = weights.all[i] - counts[i] end
end

local q = open(KEYS[1], {'HDEL', 'HINCRBY', 'HSET', 'LPUSH', 'PEXPIRE', 'UNLINK', 'ZREM'})
local again = kept_reply(q)
if again then return again end

-- Makes the next claims let held items go (lib/key_limits.lua): the key of a removed item may be free, and no
-- claim of that key ends, which else lets its next item go.
local function let_held_go_next()
  -- include key_field
  local since, _, limits = read_key_field(q)
  write_key_field(q, table.concat({'1', since or '0', '+', limits or ''}, ' '))
  leave_wake_token(q)
end

local client = ARGV[4]
local count = length_of(q, client)
expect_hash(q.base .. 'levels')
if count == 0 then return {'OK', '0'} end
local has_held = q.has_keys and redis.call('ZCARD', q.base .. 'held') > 0
if has_held then q.wake_tokens = redis.call('LLEN', q.base .. 'wake') end
redis.call('UNLINK', unpack(lists_of(q, client)))
if q.weighs then leave_main(q, client) end
forget(q, {client})
if has_held then let_held_go_next() end
close(q, {client_items = -count, flushed = count})
local text = whole(count)
keep_reply(q, text)
return {'OK', text}
