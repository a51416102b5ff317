-- What a caller waits for after a write.
local PROVING_SERVER, MOST_REPLICAS = 524800, 99

-- What the caller must wait for after a write: '' (nothing), '|replicated:N' (N replicas have it) or
-- '|fsynced:N' (it is on the disks of the server and of N replicas). Refuses the call, before anything is
-- written, without the permission, and 'fsynced' on a server whose WAITAOF is no proof of an fsync: before
-- Redis 8.2, and on every Valkey (which names itself 7.2.4 here), it can answer before the fsync unless
-- appendfsync is always.
local function durability(q, level)
  if level ~= 'replicated' and level ~= 'fsynced' then return '' end
  local config = redis.call('HMGET', q.config, 'durability_replicas', 'appendfsync_always')
  if level == 'fsynced' and config[2] ~= '1' and (redis.REDIS_VERSION_NUM or 0) < PROVING_SERVER then
    error({err = 'ERR WAITAOF is no proof of an fsync on this server'})
  end
  local command, is_allowed = 'WAIT', level == 'replicated' and redis.acl_check_cmd('WAIT', '1', '0')
  if level == 'fsynced' then
    command, is_allowed = 'WAITAOF', redis.acl_check_cmd('WAITAOF', '1', '1', '0')
  end
  if not is_allowed then error({err = 'NOPERM this user has no permissions to run ' .. command}) end
  return '|' .. level .. ':' .. whole(math.floor(setting(config[1], 1, 1, MOST_REPLICAS)))
end

-- The same after a done, which waits only if the policy says so.
local function durability_of_done(q)
  local config = redis.call('HMGET', q.config, 'durability', 'durable_done')
  return config[2] == '1' and durability(q, config[1]) or ''
end
