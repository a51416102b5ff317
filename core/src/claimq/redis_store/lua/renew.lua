#!lua flags=allow-oom
-- Purpose: moves the ends of leases to one busy expiry from now.
-- KEYS: 1 cq:{NAME}:main; derived: leases, workers (ZSET), busy:WORKER, config, stats (HASH)
-- ARGV: 1.. claims as lib/claims.lua reads them
-- Replies: {"OK", "LEASE_END VERDICT..."}: renewed or lost for each claim. Sending it again is harmless by
--   nature.
-- Cost: O(claims log busy)
-- include limits numbers clock queue types counts slices touch close claims find_held

local q = open(KEYS[1], {'HINCRBY', 'HSET', 'ZADD'})
local groups = read_claims(q, 1)
local lease_end = whole(q.now + lease_ms(redis.call('HGET', q.config, 'busy_expiry_ms')))
local verdicts, lost = find_held(q, groups)
expect_zset(q.workers)
for _, group in ipairs(groups) do
  local leasing = {}
  for i, token in ipairs(group.live) do leasing[2 * i - 1], leasing[2 * i] = lease_end, token end
  sliced(leasing, function(...) redis.call('ZADD', q.leases, 'XX', ...) end)
  if #group.live > 0 then redis.call('ZADD', q.workers, whole(q.now), group.worker) end
end
for i, verdict in ipairs(verdicts) do if verdict == '' then verdicts[i] = 'renewed' end end
if lost < #verdicts then close(q, {}) end
return {'OK', lease_end .. ' ' .. table.concat(verdicts, ' ')}
