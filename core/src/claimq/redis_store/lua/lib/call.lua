-- A mutating call carries (instance, lane, number) in ARGV[1..3]. Its reply is kept until the lane's next call, so that
-- sending it again after a lost reply changes nothing and is answered as the first time.
local function calls_key(q) return q.base .. 'calls:' .. ARGV[1] end

-- The kept reply of this very call, or nil if it is new. An older call than the lane's last must not run any more.
local function kept_reply(q)
  local last = redis.call('HGET', calls_key(q), ARGV[2])
  if not last then return nil end
  local number, reply = string.match(last, '^(%d+) (.*)$')
  if tonumber(number) == tonumber(ARGV[3]) then return reply end
  if tonumber(number) > tonumber(ARGV[3]) then return 'STALE' end
  return nil
end

local function keep_reply(q, reply)
  local calls = calls_key(q)
  redis.call('HSET', calls, ARGV[2], ARGV[3] .. ' ' .. reply)
  redis.call('PEXPIRE', calls, 3600000)
end
