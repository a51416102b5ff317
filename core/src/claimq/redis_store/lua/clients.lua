#!lua flags=no-writes
-- Purpose: a page of the ring of clients that have items in main, the next one last, each with how many, and
--   how many items have no client.
-- KEYS: 1 cq:{NAME}:main; derived: main:CLIENT, their levels (LIST), clients (ZSET)
-- ARGV: 1 how many to skip, 2 how many to return (at most 1,000); 3 a client, or nothing for all: its row
--   comes alone, also if it has no items
-- Replies: {number of items without a client, client or "-", number of its items, ...}
-- Cost: O(clients skipped and returned)
-- include limits numbers clock look counts levels

local q = look_at(KEYS[1])
local skip, count, reply = tonumber(ARGV[1]), count_of(ARGV[2], 1), {count_in(q, '-')}
local names = ARGV[3] and {ARGV[3]}
  or redis.call('ZRANGE', q.clients, whole(skip), whole(skip + count - 1), 'REV')
local prefix, is_flat = q.main .. ':', not q.has_levels
for i = 1, #names do  -- in short: there may be 1,000
  local name = names[i]
  reply[2 * i] = name
  reply[2 * i + 1] = is_flat and name ~= '-' and redis.call('LLEN', prefix .. name) or count_in(q, name)
end
return reply
