-- Opens a queue for a script that only looks at it: q has the fields that such a script needs, as
-- lib/queue.lua lists them. Also returns the fields and values of stats, which is read once, and the number
-- of the last claim. Both tables are made in one piece, and q has room for 16 fields: to grow costs time.
local function look_at(main_key)
  local base = string.sub(main_key, 1, -5)
  local stored, time = redis.call('HGETALL', base .. 'stats'), redis.call('TIME')
  local stats = {clock_offset = false, seen_at = false, client_items = false, largest = false, levels = false,
    keys = false, limits = false, turns = false, number = false}
  for i = 1, #stored, 2 do
    if stats[stored[i]] == false then stats[stored[i]] = stored[i + 1] end
  end
  local q = {
    main = main_key, base = base, clients = base .. 'clients', heads = base .. 'heads',
    delayed = base .. 'delayed', leases = base .. 'leases',
    now = time[1] * 1000 + math.floor(time[2] / 1000),
    offset = number_in(stats.clock_offset, FAR_BACK_MS, FAR_AHEAD_MS),
    seen_at = number_in(stats.seen_at, 0, LAST_MS),
    client_items = tonumber(stats.client_items) or 0,
    largest = tonumber(stats.largest) or 0,
    has_levels = stats.levels, has_keys = stats.keys, limits = stats.limits, turns = stats.turns,
  }
  read_clock(q)
  return q, stored, number_in(stats.number, 0, LAST_NUMBER)
end
