-- The workers that claimed or renewed within the last hour, or hold claims, from one rank to another (as
-- text), the one seen longest ago first: name, when it was seen last (ms), how many claims it holds, ...
-- held: worker -> how many, if some are known.
local function workers_from(base, first, last, held)
  local seen, reply = redis.call('ZRANGE', base .. 'workers', first, last, 'WITHSCORES'), {}
  for i = 1, #seen, 2 do
    reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = seen[i], seen[i + 1],
      held and held[seen[i]] or redis.call('HLEN', base .. 'busy:' .. seen[i])
  end
  return reply
end
