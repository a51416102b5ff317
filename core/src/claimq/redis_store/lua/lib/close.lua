-- Ends a transition: writes its sequence number and adds to the counters. counts: counter -> how many more.
local function close(q, counts)
  touch(q)
  local stats, totals, known = q.stats, q.totals, {'seq', whole(q.seq)}
  for name, more in pairs(counts) do
    if more ~= 0 then
      -- A counter that another client has set to anything else than a whole number begins again.
      if totals[name] then
        local total = totals[name] + more
        known[#known + 1] = name; known[#known + 1] = whole(total >= more and total <= LAST_NUMBER and total
          or more)
      elseif type(redis.pcall('HINCRBY', stats, name, whole(more))) == 'table' then
        redis.call('HSET', stats, name, whole(more))
      end
    end
  end
  if q.has_grown then known[#known + 1] = 'largest'; known[#known + 1] = whole(q.largest) end
  redis.call('HSET', stats, unpack(known))
end
