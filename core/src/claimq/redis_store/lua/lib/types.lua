-- Type checks: each refuses the call with WRONGTYPE if the key exists and is of another type. They come
-- before the first write of a script.
local function expect_list(key) redis.call('LLEN', key) end
local function expect_zset(key) redis.call('ZCARD', key) end
local function expect_hash(key) redis.call('HLEN', key) end

-- Those of limits per key, where some hold.
local function expect_key_limits(q, limits)
  -- include has_key_limits
  if has_key_limits(q, limits) then expect_zset(q.base .. 'limited'); expect_hash(q.base .. 'starts') end
end
