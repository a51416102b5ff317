-- The fields suspended, pauses and limits of config, and others that are asked for; may_hold: whether any of
-- these three may hold back items.
local function hold_config(q, ...)
  local config = redis.call('HMGET', q.base .. 'config', 'suspended', 'pauses', 'limits', ...)
  config.may_hold = config[1] == '1' or (config[2] or '') ~= '' or (config[3] or '') ~= ''
  return config
end
