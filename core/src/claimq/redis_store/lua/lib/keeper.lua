-- The entry of leases that never ends.
-- Leases hold one entry that never ends, longer than 64 bytes: the server then keeps the set as a skip list from the first claim on, and
-- never as the short list that it would search from the start for each of a batch's claims (docs/decisions/clock-and-ages.md).
local KEEPER = 'keeps-this-set-a-skip-list-----------------------------------------'
local function busy_count(q) return math.max(redis.call('ZCARD', q.leases) - 1, 0) end
