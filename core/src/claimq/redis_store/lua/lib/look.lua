-- Opens a queue for a script that only reads it, for half of what open() takes: q has the fields that such a
-- script needs, as lib/queue.lua lists them. time: the reply to TIME, stats: field -> value, both only if the
-- script has read them already. Each table is made in one piece, q with room for 16 fields: to grow costs
-- time.
local function look_at(main_key, time, stats)
  local base = string.sub(main_key, 1, -5)
  time = time or redis.call('TIME')
  time.ms = time.ms or time[1] * 1000 + math.floor(time[2] / 1000)
  if not stats then
    local s = redis.call('HMGET', base .. 'stats', 'clock_offset', 'seen_at', 'client_items', 'largest',
      'levels', 'keys', 'limits', 'turns', 'reserve')
    stats = {clock_offset = s[1], seen_at = s[2], client_items = s[3], largest = s[4],
      levels = s[5], keys = s[6], limits = s[7], turns = s[8], reserve = s[9]}
  end
  local q = {
    main = main_key, base = base, clients = base .. 'clients', delayed = base .. 'delayed',
    leases = base .. 'leases',
    now = time.ms,
    offset = number_in(stats.clock_offset, FAR_BACK_MS, FAR_AHEAD_MS),
    seen_at = number_in(stats.seen_at, 0, LAST_MS),
    client_items = tonumber(stats.client_items) or 0,
    largest = tonumber(stats.largest) or 0,
    has_levels = stats.levels, has_keys = stats.keys, limits = stats.limits, turns = stats.turns,
    stored_reserve = stats.reserve,
  }
  read_clock(q)
  return q
end
