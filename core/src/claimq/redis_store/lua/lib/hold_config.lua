-- The fields suspended, pauses and limits of config; nil where none of them may hold back items.
local function hold_config(q)
  local config = redis.call('HMGET', q.base .. 'config', 'suspended', 'pauses', 'limits')
  local may_hold = config[1] == '1' or (config[2] or '') ~= '' or (config[3] or '') ~= ''
  return may_hold and config or nil
end
