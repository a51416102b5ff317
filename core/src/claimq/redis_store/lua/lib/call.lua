-- A mutating call carries (instance, lane, number) in ARGV[1..3]. Its reply is kept until the lane's next
-- call, so that sending it again after a lost reply changes nothing and is answered as the first time. An
-- instance's replies are forgotten after an hour without a call; each lane puts that off every ten minutes.

local function keep_reply(q, reply)
  local late = not q.refreshed or q.now - tonumber(q.refreshed) > REFRESH_MS
  if late then q.refreshed = whole(q.now) end
  redis.call('HSET', q.calls, ARGV[2], ARGV[3] .. ' ' .. q.refreshed .. ' ' .. reply)
  if late then redis.call('PEXPIRE', q.calls, KEEP_MS) end
end

-- The reply to a call that was sent again; nil for a new call. A call older than the lane's last does not
-- run.
local function kept_reply(q)
  q.calls = q.base .. 'calls:' .. ARGV[1]
  local last = redis.call('HGET', q.calls, ARGV[2])
  if not last then return nil end
  local number, refreshed, reply_at = string.match(last, '^(%d+) (%d+) ()')
  q.refreshed = refreshed
  if number == ARGV[3] then
    local reply = string.sub(last, reply_at)
    -- WAIT waits for the last write of its own connection, so a caller that waits needs a write here.
    if string.find(reply, '|%a+:%d+$') then keep_reply(q, reply) end
    return {'OK', reply}
  end
  if number and tonumber(number) > tonumber(ARGV[3]) then return {'STALE'} end
end
