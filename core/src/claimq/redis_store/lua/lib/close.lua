-- Writes the bytes of clients that this call has changed; returns the field of stats (lib/weights.lua).
local function write_weights(q)
  -- include weights
  local key = q.base .. 'bytes'
  for client, change in pairs(q.weights.clients) do
    if client ~= '-' then
      -- A key of another type counts nothing.
      local text = weights_text(read_weights(redis.pcall('HGET', key, client)), change)
      if text == '0 0 0 0' and q.end_number then q.end_number(key, client)
      else redis.pcall('HSET', key, client, text) end
    end
  end
  return weights_text(q.weights.all) .. ' ' .. whole(q.weights.from) .. ' ' .. whole(q.weights.mean)
end

-- Ends a transition: writes its sequence number and adds to the counters. counts: counter -> how many more.
local function close(q, counts)
  touch(q)
  if q.more_delayed then
    local key = q.base .. 'delayed:clients'
    for client, more in pairs(q.more_delayed) do
      -- A key that another client has changed counts nothing; damage.lua reports it.
      local left = redis.pcall('HINCRBY', key, client, whole(more))
      if q.end_number and type(left) == 'number' and left <= 0 then q.end_number(key, client) end
    end
  end
  if q.more_client_items then counts.client_items = q.more_client_items end
  local stats, totals, known = q.stats, q.totals, {'seq', whole(q.seq)}
  for name, more in pairs(counts) do
    if more ~= 0 then
      -- A counter that another client has set to anything else than a whole number begins again.
      if totals[name] ~= nil then
        local total = (tonumber(totals[name]) or 0) + more
        known[#known + 1] = name; known[#known + 1] = whole(total >= more and total <= LAST_NUMBER and total
          or more)
      elseif type(redis.pcall('HINCRBY', stats, name, whole(more))) == 'table' then
        redis.call('HSET', stats, name, whole(more))
      end
    end
  end
  if q.longest then
    known[#known + 1] = 'longest'; known[#known + 1] = whole(q.longest) .. ' ' .. whole(q.now)
  end
  if q.has_starts then
    known[#known + 1] = 'limits'; known[#known + 1] = q.limits
    add_clock(q, known)  -- no later start counts at an earlier instant
  end
  if q.settle_turns then q.settle_turns() end
  if q.write_shares then q.write_shares(q) end
  if q.turn then
    known[#known + 1] = 'turns'; known[#known + 1] = whole(q.turn.at) .. ' ' .. whole(q.turn.mean)
  end
  if q.write_reserve then q.write_reserve(q) end
  if q.has_grown then known[#known + 1] = 'largest'; known[#known + 1] = whole(q.largest) end
  if q.weights then known[#known + 1] = 'bound'; known[#known + 1] = write_weights(q) end
  redis.call('HSET', stats, unpack(known))
end
