-- Lets the next claim count all items in progress again for bounds per client (lib/park.lua).
local function count_again(q)
  q.limits = string.gsub(q.limits or '0', '^(.|[01]%+?)=?%S*', '%1=')
  redis.call('HSET', q.stats, 'limits', q.limits)
end
