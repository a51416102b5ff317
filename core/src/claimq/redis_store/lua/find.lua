#!lua flags=no-writes
-- Purpose: looks for an item by id in one bounded stretch of a state.
-- use: queue
-- KEYS: 1 cq:{NAME}:main; derived: main:CLIENT (LIST), leases, delayed (ZSET), busy:WORKER (HASH)
-- ARGV: 1 id, 2 state (main, busy or delayed), 3 client or "-", 4 skip, 5 count
-- Replies: {"FOUND", position, NAME (token or ""), score in ms or "", envelope} or {"NEXT", looked at}
-- Cost: O(count)
local q = open(KEYS[1])
local id, state, skip, count = ARGV[1], ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[5])
local plain, marked = 'cq1 ' .. id .. ' ', 'cq1!' .. id .. ' '
local function is_it(envelope)
  local start = envelope and string.sub(envelope, 1, #plain)
  return start == plain or start == marked
end
if state == 'main' then
  local page = redis.call('LRANGE', key_of(q, ARGV[3]), -(skip + count), -(skip + 1))
  for i = #page, 1, -1 do
    if is_it(page[i]) then return {'FOUND', skip + #page - i, '', '', page[i]} end
  end
  return {'NEXT', #page}
end
local page = redis.call('ZRANGEBYSCORE', q.base .. (state == 'busy' and 'leases' or 'delayed'), '-inf', '(inf', 'WITHSCORES', 'LIMIT', skip, count)
for i = 1, #page, 2 do
  local name, envelope = page[i], page[i]
  if state == 'busy' then envelope = redis.call('HGET', q.base .. 'busy:' .. string.match(name, '^(.*)/'), name) else name = '' end
  if is_it(envelope) then return {'FOUND', skip + (i - 1) / 2, name, page[i + 1], envelope} end
end
return {'NEXT', #page / 2}
