-- Opens a queue for a script that only looks at it: stats is read once, and q has the fields that such a
-- script needs, as lib/queue.lua lists them.
local function look_at(main_key)
  local base = string.sub(main_key, 1, -5)
  local stored, stats, time = redis.call('HGETALL', base .. 'stats'), {}, redis.call('TIME')
  for i = 1, #stored, 2 do stats[stored[i]] = stored[i + 1] end
  local q = {
    main = main_key, base = base, clients = base .. 'clients', heads = base .. 'heads',
    delayed = base .. 'delayed', leases = base .. 'leases', workers = base .. 'workers',
    config = base .. 'config',
    now = time[1] * 1000 + math.floor(time[2] / 1000),
    offset = number_in(stats.clock_offset, FAR_BACK_MS, FAR_AHEAD_MS),
    seen_at = number_in(stats.seen_at, 0, LAST_MS),
    client_items = tonumber(stats.client_items) or 0,
    largest = tonumber(stats.largest) or 0,
    has_levels = stats.levels, has_keys = stats.keys, limits = stats.limits, turns = stats.turns,
    totals = {number = number_in(stats.number, 0, LAST_NUMBER)},
  }
  read_clock(q)
  return q, stored
end
