#!lua flags=no-writes
-- Purpose: a page of the items of busy, delayed or failed, oldest first (busy by lease end, delayed by due
--   time, failed by failing).
-- KEYS: 1 cq:{NAME}:main; derived: leases, delayed, failed (ZSET), busy:WORKER, failed:items (HASH)
-- ARGV: 1 state, 2 skip, 3 count
-- Replies: {0|1 whether it stopped at 2 MiB before the end of the page, then for each: NAME (token, field in
--   failed, or ""), score in ms, envelope or false}
-- Cost: O(log n + count)
-- include limits queue counts sizes read_within keeper

local q = open(KEYS[1], {})
local state, skip, count = ARGV[1], tonumber(ARGV[2]), count_of(ARGV[3], 1)
local reply = {0}
local function add(name, score, envelope)
  reply[#reply + 1] = name; reply[#reply + 1] = score; reply[#reply + 1] = envelope
  return has_room(q, #(envelope or ''))
end
if state == 'delayed' then
  local envelopes = read_within(q, count, function(read, more)
    return redis.call('ZRANGE', q.delayed, whole(skip + read), whole(skip + read + more - 1))
  end)
  if #envelopes < count and not has_room(q, 0) then reply[1] = 1 end
  for _, envelope in ipairs(envelopes) do add('', redis.call('ZSCORE', q.delayed, envelope), envelope) end
  return reply
end
if state == 'busy' then count = math.min(count, busy_count(q) - skip) end  -- the last of the leases is KEEPER
local page = count > 0 and redis.call('ZRANGE', state == 'busy' and q.leases or q.base .. 'failed',
  whole(skip), whole(skip + count - 1), 'WITHSCORES') or {}
for i = 1, #page, 2 do
  local name = page[i]
  local key = state == 'busy' and 'busy:' .. (string.match(name, '^(.*)/') or '') or 'failed:items'
  if not add(name, page[i + 1], redis.call('HGET', q.base .. key, name)) and i + 1 < #page then
    reply[1] = 1
    break
  end
end
return reply
