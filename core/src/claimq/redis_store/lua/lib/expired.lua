-- Which leases have ended, and whether a call may look for the processes that consume.

-- Returns the instant (ms) up to which leases have ended. A period of grace keeps all leases that had not
-- ended before the gap.
local function expired_by(q)
  local grace_until = q.grace_until or number_in(q.stored_until, 0, q.now + GRACE_MS)
  return q.now >= grace_until and q.now or q.grace_from or number_in(q.stored_from, 0, q.now)
end

-- Whether a call may look now: not in a period of grace, in which processes reconnect, and not for a user
-- without the right.
local function may_look(q)
  return expired_by(q) == q.now and redis.acl_check_cmd('PUBSUB', 'NUMSUB', q.base)
end
