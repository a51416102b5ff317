-- Leaves one token for one waiting claimer: there is work in main.
local function leave_wake_token(q)
  if (q.wake_tokens or redis.call('LLEN', q.base .. 'wake')) == 0 then
    redis.call('LPUSH', q.base .. 'wake', '1')
    q.wake_tokens = 1
  end
end
