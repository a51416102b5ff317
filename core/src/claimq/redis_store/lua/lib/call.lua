-- A mutating call carries (instance, lane, number) in ARGV[1..3]. Its reply is kept until the lane's next call, so that
-- sending it again after a lost reply changes nothing and is answered as the first time. An instance's replies are forgotten
-- after an hour without a call; each lane puts that off every ten minutes.
local KEEP_MS, REFRESH_MS = 3600000, 600000
local PROVING_SERVER, MOST_REPLICAS = 524800, 99

-- The kept reply of this very call, or nil if it is new. An older call than the lane's last must not run any more.
local function kept_reply(q)
  q.calls = q.base .. 'calls:' .. ARGV[1]
  local last = redis.call('HGET', q.calls, ARGV[2])
  if not last then return nil end
  local number, refreshed, reply_at = string.match(last, '^(%d+) (%d+) ()')
  q.refreshed = refreshed
  if number == ARGV[3] then return string.sub(last, reply_at) end
  if number and tonumber(number) > tonumber(ARGV[3]) then return 'STALE' end
  return nil
end

local function keep_reply(q, reply)
  local late = not q.refreshed or q.now - tonumber(q.refreshed) > REFRESH_MS
  if late then q.refreshed = whole(q.now) end
  redis.call('HSET', q.calls, ARGV[2], ARGV[3] .. ' ' .. q.refreshed .. ' ' .. reply)
  if late then redis.call('PEXPIRE', q.calls, KEEP_MS) end
end

-- What the caller must wait for after a write: '' (nothing), '|replicated:N' (N replicas have it) or '|fsynced:N' (it is on the disks of the server and of N
-- replicas). Refuses the call, before anything is written, without the permission, and 'fsynced' on a server whose WAITAOF is no proof of an fsync:
-- before Redis 8.2, and on every Valkey (which names itself 7.2.4 here), it can answer before the fsync unless appendfsync is always.
local function durability(q, level)
  if level ~= 'replicated' and level ~= 'fsynced' then return '' end
  local config = redis.call('HMGET', q.config, 'durability_replicas', 'appendfsync_always')
  if level == 'fsynced' and config[2] ~= '1' and (redis.REDIS_VERSION_NUM or 0) < PROVING_SERVER then
    error({err = 'ERR WAITAOF is no proof of an fsync on this server'})
  end
  local command, is_allowed = 'WAIT', level == 'replicated' and redis.acl_check_cmd('WAIT', '1', '0')
  if level == 'fsynced' then command, is_allowed = 'WAITAOF', redis.acl_check_cmd('WAITAOF', '1', '1', '0') end
  if not is_allowed then error({err = 'NOPERM this user has no permissions to run ' .. command}) end
  return '|' .. level .. ':' .. whole(math.floor(setting(config[1], 1, 1, MOST_REPLICAS)))
end

-- The same after a done, which waits only if the policy says so.
local function durability_of_done(q)
  local config = redis.call('HMGET', q.config, 'durability', 'durable_done')
  return config[2] == '1' and durability(q, config[1]) or ''
end

-- On demand: replies are seldom lost.
-- Answers a call that was sent again. What WAIT waits for is the last write of its own connection, so a caller that waits needs one here.
local function answer_again(q, kept)
  if string.find(kept, '|%a+:%d+$') then keep_reply(q, kept) end
  return {'OK', kept}
end
