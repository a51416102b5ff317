-- Subtracts envelopes that leave main or delayed from the bytes that wait. The numbers of a client are
-- removed with its last item.
local function end_number(key, client) redis.pcall('HDEL', key, client) end

local function weigh_out(q, place, envelopes)
  weigh(q, place, envelopes, -1)
  q.end_number = end_number
end
