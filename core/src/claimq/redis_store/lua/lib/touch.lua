-- Notes when the queue was served.
local function write_clock(q)
  local fields = {'seen_at', whole(q.now), 'clock_offset', whole(q.offset), 'server', tostring(redis)}
  local function add(name, value) fields[#fields + 1], fields[#fields + 2] = name, value end
  if q.grace_until then add('grace_until', whole(q.grace_until)); add('grace_from', whole(q.grace_from)) end
  if q.server_since then add('server_since', whole(q.server_since)); add('incarnation', q.new_incarnation) end
  redis.call('HSET', q.stats, unpack(fields))
end

-- Notes that the queue was served now, at most once a second so that idle polling writes little.
local function touch(q)
  if q.stepped then write_clock(q)
  elseif q.now - q.seen_at >= 1000 then
    if (tonumber(q.stored_offset) or 0) > 0 then
      redis.call('HSET', q.stats, 'seen_at', whole(q.now), 'clock_offset', whole(q.offset))
    else redis.call('HSET', q.stats, 'seen_at', whole(q.now)) end
  end
end
