#!lua flags=no-writes
-- Purpose: a page of the items of busy in the order in which they were claimed, oldest first.
-- KEYS: 1 cq:{NAME}:main; derived: claims, leases (ZSET), busy:WORKER (HASH)
-- ARGV: 1 how many calls of the log of claim calls to skip, 2 how many tokens of the next one, 3 count, 4 and
--   5 as 1 and 2 of new_outline, or ""
-- Replies: {0|1 whether another call may find more, 1 and 2 of that call, then for each: token, end of the
--   lease in ms, envelope or outline, when it was claimed in ms}
-- Cost: O(count log busy + tokens of the calls, ended or not: at most 2,000); ends after 2 MiB
-- include limits numbers clock look counts room outline

local CALLS, TOKENS = 1000, 2000
local q = look_at(KEYS[1])
local rank, skip, count = tonumber(ARGV[1]), tonumber(ARGV[2]), count_of(ARGV[3], 1)
local outline, reply, held, looked = new_outline(ARGV[4], ARGV[5]), {1, '', ''}, {}, 0
local calls = redis.call('ZRANGE', q.base .. 'claims', whole(rank), whole(rank + CALLS - 1), 'WITHSCORES')
for i = 1, #calls, 2 do
  local first, size, nonce, worker = string.match(calls[i], '^(%d+) (%d+) (%S+) (.*)$')
  local busy = worker and q.base .. 'busy:' .. worker
  if busy and not held[busy] then held[busy] = redis.call('HLEN', busy) end
  for n = skip, busy and held[busy] > 0 and math.min(tonumber(size), CALL_ITEMS) - 1 or -1 do
    local token = worker .. '/' .. whole(first + n) .. '.' .. nonce
    local envelope = redis.call('HGET', busy, token)
    looked = looked + 1
    if envelope then
      for _, word in ipairs({token, redis.call('ZSCORE', q.leases, token) or '0', outline(envelope),
        calls[i + 1]}) do
        reply[#reply + 1] = word
      end
    end
    if not has_room(q, #(envelope or '')) or looked == TOKENS or #reply == 3 + 4 * count then
      reply[2], reply[3] = whole(rank), whole(n + 1)
      return reply
    end
  end
  rank, skip = rank + 1, 0
end
reply[1], reply[2], reply[3] = #calls == 2 * CALLS and 1 or 0, whole(rank), '0'
return reply
