-- Slots of the workers, and how many of them this call may fill (lib/reserve.lua). The hash `slots` has
-- "SLOTS AT" for each instance of a worker that names its slots: AT is when it claimed last, within COUNT_MS.
local COUNT_MS, CLAIMS_MS, UNKNOWN_MS = 5000, 15000, 60000
local NEXT_TURNS = 64  -- clients among which quiet ones are sought

local function entry_of(q, text)
  local slots, at = string.match(type(text) == 'string' and text or '', '^(%d+) (%d+)$')
  return number_in(slots, 0, LAST_NUMBER), number_in(at, 0, q.now)
end

-- How many slots all workers have. An instance that has not claimed lately is full, or stops, or is gone: it
-- counts as far as its worker has items for its slots.
local function count_slots(q, key)
  -- include slices
  local sums, late, gone, sum = {}, {}, {}, 0
  local entries = redis.pcall('HGETALL', key)
  for i = 1, #entries, 2 do
    local slots, at = entry_of(q, entries[i + 1])
    local worker = string.match(entries[i], ' (.*)$') or ''
    sums[worker] = sums[worker] or 0
    if q.now - at <= CLAIMS_MS then sums[worker] = sums[worker] + slots
    else late[#late + 1] = {name = entries[i], worker = worker, slots = slots} end
  end
  for _, entry in ipairs(late) do
    local held = redis.call('HLEN', q.base .. 'busy:' .. entry.worker) - sums[entry.worker]
    if held <= 0 then gone[#gone + 1] = entry.name
    else sums[entry.worker] = sums[entry.worker] + math.min(entry.slots, held) end
  end
  for _, slots in pairs(sums) do sum = sum + slots end
  sliced(gone, function(...) redis.call('HDEL', key, ...) end)
  return sum
end

-- Writes the field, if it changes.
local function write_reserve(q)
  local reserve = q.reserve
  local before = q.stored_reserve
  q.stored_reserve = format_text('%d %d %.3f %d', reserve.slots, reserve.counted_at, reserve.rate,
    reserve.quiet_at)
  if q.stored_reserve ~= before then redis.call('HSET', q.stats, 'reserve', q.stored_reserve) end
end

-- Sets q.room: how many items of any client this call may start. Beyond that it starts those of quiet clients
-- alone; nil: all may start. waiting: how many clients have turns.
local function find_room(q, waiting)
  local claimer, reserve, key = q.claimer, read_reserve(q), q.base .. 'slots'
  q.reserve, q.write_reserve = reserve, write_reserve
  if not claimer.slots then
    reserve.rate = 0
    if reserve.quiet_at >= 0 or q.now + reserve.quiet_at > COUNT_MS then
      reserve.quiet_at = -q.now
      write_reserve(q)
    end
    return
  end
  if reserve.quiet_at < 0 and q.now + reserve.quiet_at > UNKNOWN_MS then reserve.quiet_at = 0 end
  local name = ARGV[1] .. ' ' .. claimer.worker
  local slots, at = entry_of(q, redis.pcall('HGET', key, name))  -- an error is no text
  local before, counted_at = reserve.slots, reserve.counted_at
  if slots ~= claimer.slots or q.now - at >= COUNT_MS then
    redis.pcall('HSET', key, name, whole(claimer.slots) .. ' ' .. whole(q.now))
    reserve.slots = math.max(reserve.slots + claimer.slots - slots, claimer.slots)
  end
  if q.now - reserve.counted_at >= COUNT_MS then
    reserve.slots, reserve.counted_at = count_slots(q, key), q.now
  end
  if reserve.slots ~= before or reserve.counted_at ~= counted_at then write_reserve(q) end
  local kept = kept_slots(reserve.slots, claimer.share)
  reserve.rate = math.min(kept, 0.75 * reserve.slots / math.max(waiting, 2))
  if kept > 0 and is_kept(q, reserve.quiet_at) then
    q.room = reserve.slots - kept - math.max(0, claimer.leased - 1) + claimer.ending
  end
end

-- How far a claim of so many items looks in the ring.
local function last_turn(q, want, started)
  return want + (q.room and q.room - started < want and NEXT_TURNS or 0)
end

-- How many items more of a client this call may start, after `started` of any client, of them `count` of its
-- own.
local function room_of(q, share, started, count)
  local mean = charge_of(q, share) * share.weight / UNIT
  if not q.room or share.mean > 0 and mean < SHORT_MS then return math.huge end
  q.fills_slots = true
  return math.max(0, q.room - started, quiet_room(q, q.reserve.rate * share.weight, share.count + count, mean,
    share.drained_at, share.mean == 0))
end

-- Notes that a client has work, if it uses little: it has emptied its lists, or had before it entered the
-- ring.
local function note_quiet(q, share)
  local reserve = q.reserve
  if not reserve or reserve.rate == 0 or reserve.quiet_at < 0 then return end
  local mean = charge_of(q, share) * share.weight / UNIT
  local late = math.max(0, share.drained_at - q.now) * reserve.rate * share.weight / mean
  if share.count + late <= (share.mean == 0 and 1 or BURST) then
    reserve.quiet_at = math.max(reserve.quiet_at, q.now - q.now % 1000)
  end
end
