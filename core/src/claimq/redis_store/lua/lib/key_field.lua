-- The field `keys` of stats while limits per key hold: since which claim, up to which key the held items have
-- gone on, and the limits (lib/key_limits.lua); nil where none have held.
local function read_key_field(q) return string.match(q.has_keys or '', '^1 (%d+) (%S+) (.*)$') end

local function write_key_field(q, text)
  if text == q.has_keys then return end
  q.has_keys, q.most_of_key = text, nil
  redis.call('HSET', q.stats, 'keys', q.has_keys)
end
