-- Which leases have ended, and whether a call may look for the processes that consume.

-- Returns the instant (ms) up to which leases have ended. A period of grace keeps all leases that had not
-- ended before the gap.
local function expired_by(q)
  local from, ends = q.grace_from, q.grace_until
  if not ends then
    local stored = redis.call('HMGET', q.stats, 'grace_from', 'grace_until')
    from, ends = number_in(stored[1], 0, q.now), number_in(stored[2], 0, q.now + GRACE_MS)
  end
  return q.now >= ends and q.now or from
end

-- Whether a call may look now: not in a period of grace, in which processes reconnect, and not for a user
-- without the right.
local function may_look(q)
  return expired_by(q) == q.now and redis.acl_check_cmd('PUBSUB', 'NUMSUB', q.base)
end
