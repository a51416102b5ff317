-- Adds the instant of this call, and the offset if it may have changed. The offset has parts of a
-- millisecond, since slewing takes such parts.
local function add_clock(q, fields)
  fields[#fields + 1] = 'seen_at'; fields[#fields + 1] = whole(q.now)
  if q.stepped or (tonumber(q.stored_offset) or 0) > 0 then
    fields[#fields + 1] = 'clock_offset'; fields[#fields + 1] = format_text('%.14g', q.offset)
  end
end

local function write_clock(q)
  local fields = {'server', tostring(redis)}
  local function add(name, value) fields[#fields + 1], fields[#fields + 2] = name, value end
  add_clock(q, fields)
  if q.grace_until then add('grace_until', whole(q.grace_until)); add('grace_from', whole(q.grace_from)) end
  if q.server_since then add('server_since', whole(q.server_since)); add('incarnation', q.new_incarnation) end
  redis.call('HSET', q.stats, unpack(fields))
end

-- Notes that the queue was served now, at most once a second so that idle polling writes little.
local function touch(q)
  if q.stepped then write_clock(q)
  elseif q.now - q.seen_at >= 1000 then
    local fields = {}
    add_clock(q, fields)
    redis.call('HSET', q.stats, unpack(fields))
  end
end
