-- An entry of leases that never ends. It is longer than 64 bytes, so the server keeps the set as a skip list
-- from the first claim on. It would search a short list from its start for each claim of a batch
-- (docs/decisions/clock-and-ages.md).
local KEEPER = 'keeps-this-set-a-skip-list-----------------------------------------'
local function busy_count(q) return math.max(redis.call('ZCARD', q.leases) - 1, 0) end
