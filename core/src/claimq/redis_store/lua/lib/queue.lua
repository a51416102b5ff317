-- A queue opened by one of its keys: its names, the server's clock, its sequence number. Reads only, but for touch() and close().
-- What a script stores or sends is text. A number that it passes on is written by the server, as 1e+8 by Redis 7.2.4, and one that Lua prints loses digits
-- from 1e14 on; a field or index of such a text is refused later. So whole() writes every number, and fraction() a score that has a fraction.
local format_text = string.format
local function whole(number) return format_text('%d', number) end
local function fraction(number) return format_text('%.17g', number) end

-- The server keeps what a script wrote before it was refused a command. So every command that the script may write with is asked for
-- before anything is written (redis_store/scripts.py lists them; a fast path asks for its own). What is asked about is the beginning of the queue's keys, which no key pattern narrower than all of them covers.
-- A probe has as many words as the command needs: since Redis 8.6 the server refuses any other number (docs/decisions/permissions.md).
local function refuse(base, command)
  error({err = 'NOPERM this user has no permissions to run ' .. command .. ' on all keys ' .. base .. '*'})
end
local function check_permission(base, command, ...)
  if not redis.acl_check_cmd(command, base, ...) then refuse(base, command) end
end

-- What one call handles, so that none blocks the server for long: items, items that it moves (parsed and written again), and bytes of items.
-- A call ends with the item that reaches the bound of bytes: at least one, whatever its size. Callers go on from where it ended.
local CALL_ITEMS, CALL_MOVES, CALL_BYTES = 1000, 100, 2097152

-- The server returns the memory of a large value to the kernel at once, which costs it about as long as copying it. So a call frees at most so many bytes.
local FREED_BYTES = 8388608

-- An argument that says how many: a whole number from least to CALL_ITEMS, or the call is refused.
local function count_of(word, least)
  local count = tonumber(word)
  if not count or count < least or count > CALL_ITEMS or count % 1 ~= 0 then
    error({err = 'ERR a count is a whole number from ' .. least .. ' to ' .. CALL_ITEMS .. ', not ' .. string.sub(tostring(word), 1, 40)})
  end
  return count
end

-- An error, its detail or a cause: at most what the library sends, so that a header stays within what read_meta() takes.
local TEXT_BYTES = 8192
local function check_text(...)
  for _, text in ipairs({...}) do
    if #text > TEXT_BYTES then error({err = 'ERR a text has at most ' .. TEXT_BYTES .. ' bytes, not ' .. #text}) end
  end
end

-- Counts bytes that this call has read; whether there is room for more.
local function has_room(q, bytes)
  q.bytes = (q.bytes or 0) + bytes
  return q.bytes < CALL_BYTES
end

-- Notes the size of an item that is stored or claimed. The largest of all says when a call may free or read too much.
local function note_size(q, bytes)
  if bytes > q.largest then q.largest, q.has_grown = bytes, true end
end

-- Looks at places of lists and sets in turn, those after the first `from` of all: at most 2,000 and as long as there is room. Each call of
-- the returned function adds `total` places, of which look(i) reads the one at i (from 0) and returns its bytes. walk.at is how far it got.
local function walk_from(q, from)
  local walk, added = {at = from}, 0
  return walk, function(total, look)
    for i = math.max(walk.at - added, 0), total - 1 do
      if walk.at - from >= 2000 or not has_room(q, 0) then break end
      has_room(q, look(i))
      walk.at = walk.at + 1
    end
    added = added + total
    walk.more = walk.at < added and 1 or 0
  end
end

-- Up to want envelopes, for as long as there is room. fetch(skip, count) reads the next ones, and returns in bytes what they take beside their size. It
-- reads as many as fit if none exceeds `largest`, but not more than `most`, and two at a time where two like the largest so far fit.
local function read_within(q, want, fetch, largest, most)
  local got, found, room = {}, CALL_BYTES, has_room(q, 0)
  while #got < want and room do
    local before, fitting = #got, q.bytes + 2 * found <= CALL_BYTES and 2 or 1
    if largest then fitting = math.max(fitting, math.min(most, math.floor((CALL_BYTES - q.bytes) / largest))) end
    local asked = math.min(want - before, fitting)
    local page, bytes = fetch(before, asked)
    bytes = bytes or 0
    if before == 0 and page[1] then found = #page[1] end
    for i = 1, #page do
      local size = #page[i]
      got[before + i], bytes = page[i], bytes + size
      if size > found then found = size end
    end
    room = has_room(q, bytes)
    if #page < asked then break end
  end
  return got
end

-- What it takes to find an item of a list, as bytes that take as long to read: the server goes from the nearer end over nodes of 8 KiB.
local NODE_BYTES, STEP_BYTES, FAR_BYTES, MOST_NEAR = 8192, 12, 32768, 8
local function bytes_to_find(depth, size) return depth * math.min(size / NODE_BYTES, 1) * STEP_BYTES end

-- The same from the right end of a list, where its oldest items are, after the first skip of them. The largest size is trusted for a few items only unless
-- they are far inside the list: another client may have put anything there.
local function read_oldest(q, list, skip, want, largest)
  local length = skip > 0 and redis.call('LLEN', list) or 0
  local is_far = largest and bytes_to_find(math.min(skip, length - skip), largest) >= FAR_BYTES
  return read_within(q, want, function(read, count)
    local first = skip + read
    local page = redis.call('LRANGE', list, whole(-(first + count)), whole(-(first + 1)))  -- the newest first
    local size = #page
    for i = 1, math.floor(size / 2) do page[i], page[size + 1 - i] = page[size + 1 - i], page[i] end
    return page, length > 0 and page[1] and bytes_to_find(math.min(first, length - first), #page[1]) or 0
  end, largest, is_far and want or MOST_NEAR)
end

-- Returns a function that says whether a stored item has this id.
local function new_id_check(id)
  local plain, marked = 'cq1 ' .. id .. ' ', 'cq1!' .. id .. ' '
  return function(envelope)
    local start = string.sub(envelope, 1, #plain)
    return start == plain or start == marked
  end
end

-- A number of the config, which any client may have set: the default if it is none, and within its bounds (claimq/policy.py has the same).
local function setting(text, default, least, most)
  local value = tonumber(text)
  if not value or value ~= value then return default end
  return math.max(least, math.min(value, most))
end
local LONGEST_LEASE_MS = 604800000
local function lease_ms(text) return math.floor(setting(text, 30000, 1, LONGEST_LEASE_MS)) end

-- Type checks: each refuses the call with WRONGTYPE if the key exists and is of another type. They come before the first write of a script.
local function expect_list(key) redis.call('LLEN', key) end
local function expect_zset(key) redis.call('ZCARD', key) end
local function expect_hash(key) redis.call('HLEN', key) end

-- A number of stats, which any client may have set: 0 if it is out of these bounds. Instants up to LAST_MS (in 2223) and numbers up to LAST_NUMBER are so far
-- below 2^53 that the tokens of one call differ. Most are 0, which takes no conversion.
local FAR_BACK_MS, FAR_AHEAD_MS, LAST_MS, LAST_NUMBER = -1e13, 6e12, 8e12, 9e15
local function number_in(text, least, most)
  local number = text and text ~= '0' and tonumber(text)
  return number and number >= least and number <= most and number or 0
end

-- The table q: one queue, as one call sees it. What a script does not name is left out of it, and fields of stats that it does not name are not read
-- (redis_store/scripts.py).
local function new_queue(main_key, base, seen, time)
  return {
    main = main_key,                  -- list: items without a client, newest left, oldest right
    base = base,                      -- prefix of all keys; followed by "busy:WORKER" (hash) and "calls:INSTANCE" (hash)
    clients = base .. 'clients',      -- list: ring of the clients that have items, the next one right; "-" is main
    heads = base .. 'heads',          -- zset: client -> when its oldest item was enqueued (ms)
    delayed = base .. 'delayed',      -- zset: envelope -> due (ms)
    leases = base .. 'leases',        -- zset: token -> end of the lease (ms), and KEEPER
    claims = base .. 'claims',        -- zset: claim call -> its instant (ms)
    workers = base .. 'workers',      -- zset: worker -> last seen (ms)
    present = base .. 'present',      -- zset: process that consumes -> when to look whether it is there (ms), see lib/presence.lua
    failed = base .. 'failed',        -- zset: id -> failed at (ms)
    failed_items = base .. 'failed:items',  -- hash: id -> envelope
    removed = base .. 'removed',      -- list: log of removed items
    audit = base .. 'audit',          -- list: audit log
    added = base .. 'added',          -- list: audit log of items that were enqueued or moved here by hand
    config = base .. 'config',        -- hash: the policy
    stats = base .. 'stats',          -- hash: counters, sequence number, the queue's clock
    wake = base .. 'wake',            -- list: at most one wake token
    ids = base .. 'ids',              -- zset: id that a producer gave -> when it is forgotten (ms)
    seen = seen,                      -- what open() read of stats; seen.levels: whether the queue has levels (lib/levels.lua)
    seq = number_in(seen.seq, 0, LAST_NUMBER) + 1,  -- number of this transition
    now = time[1] * 1000 + math.floor(time[2] / 1000),  -- ms, by the queue's clock
    offset = number_in(seen.clock_offset, FAR_BACK_MS, FAR_AHEAD_MS),  -- of the queue's clock from the server's (ms)
    seen_at = number_in(seen.seen_at, 0, LAST_MS),  -- when a call noted last that the queue was served (ms)
    client_items = tonumber(seen.client_items) or 0,  -- items in all clients' lists
    main_in_ring = seen.main_in_ring == '1',
    largest = tonumber(seen.largest) or 0,  -- bytes of the largest item that was stored or claimed
    totals = {                        -- counters that close() writes without reading them again
      enqueued = tonumber(seen.enqueued) or 0,
      claimed = tonumber(seen.claimed) or 0,
      done = tonumber(seen.done) or 0,
      number = number_in(seen.number, 0, LAST_NUMBER),
    },
  }
end
-- Fields that a call sets as it goes: grace_from, grace_until, server_since (ms; where they change), stepped (write the clock's fields), new_incarnation (where it changes), incarnation (lib/lease.lua), has_grown (write largest), bytes (of items read, for has_room), counts (counter -> how many more), more_client_items (change of client_items), lengths (client -> items
--   in its list, read once), ring (length of clients), unknown (clients that have items and are missing in heads), wake_tokens (length of wake), calls and refreshed (lib/call.lua), limit, id_window, durability, known,
--   old_ids, own_ids, enqueued (lib/enqueue.lua), first, adopted, left, took_round, stopped, lost_lists, weight, are_plain (lib/take.lua),
--   keys, waiting, ending (lib/exclusive.lua), put (items delayed by this call), same, over_bytes, over_items, merge_items, merge_bytes (lib/settle.lua), removals (lib/removed.lua).

local SLEW = 0.1             -- the share of each second that is taken off an offset, until there is none (docs/decisions/clock-and-ages.md)
local GAP_MS = 5000          -- no call touched the queue for longer: the server was down, or its clock was stepped
local GRACE_MS = 10000       -- the longest period of grace

-- Sets the queue's clock from the server's, which q.now has.
local function read_clock(q)
  q.now = q.now + q.offset
  if q.offset > 0 and q.seen_at > 0 and q.now > q.seen_at then  -- the queue's clock is ahead of the server's: let it lose that slowly
    local slewed = math.min(q.offset, math.floor((q.now - q.seen_at) * SLEW))
    q.offset, q.now = q.offset - slewed, q.now - slewed
  end
  if q.now < q.seen_at then  -- the clock went back: go on from the last instant seen, so that no lease lasts longer
    q.offset, q.now, q.stepped = q.offset + q.seen_at - q.now, q.seen_at, true
  elseif q.seen_at > 0 and q.now - q.seen_at > GAP_MS then  -- one period of grace for holders that are alive to renew
    -- Leases that had ended before the gap get no other: a queue that is looked at seldom would otherwise never end one.
    local expiry = redis.call('HGET', q.config, 'busy_expiry_ms')
    q.grace_until = q.now + math.min(math.floor(lease_ms(expiry) / 3), GRACE_MS)
    q.grace_from, q.stepped = q.seen_at, true
  end
end

-- Opens a queue by its main key. Refuses the call if the caller may not run one of the commands that the script writes with: PROBES_OF_WRITES.
-- SEEN_FIELDS: the fields of stats that the script names as seen.NAME (redis_store/scripts.py).
local function open(main_key)
  local base = string.sub(main_key, 1, -5)
  check_permission(base, PROBES_OF_WRITES)
  local seen = redis.call('HMGET', base .. 'stats', SEEN_FIELDS)
  local q = new_queue(main_key, base, seen, redis.call('TIME'))
  read_clock(q)
  -- Another server process may have lost the last writes, among them verdicts and renewals. An address in its memory names the process; with
  -- randomized addresses two processes have the same one by a rare chance only (docs/decisions/call-identity.md).
  if seen.server ~= tostring(redis) then
    q.server_since, q.stepped, q.new_incarnation = seen.server and q.now or 0, true, ''
  end
  return q
end

-- Leases that end later than this instant (ms) have not ended: in a period of grace, all that had not ended before the gap.
local function expired_by(q)
  local grace_until = q.grace_until or number_in(q.seen.grace_until, 0, q.now + GRACE_MS)
  return q.now >= grace_until and q.now or q.grace_from or number_in(q.seen.grace_from, 0, q.now)
end

-- On demand: the clock is seldom set.
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
    if (tonumber(q.seen.clock_offset) or 0) > 0 then redis.call('HSET', q.stats, 'seen_at', whole(q.now), 'clock_offset', whole(q.offset))
    else redis.call('HSET', q.stats, 'seen_at', whole(q.now)) end
  end
end

-- Takes the sequence number of this transition and adds to the counters: a table of name -> how many more.
local function close(q, counts)
  touch(q)
  local stats, totals, known = q.stats, q.totals, {'seq', whole(q.seq)}
  for name, more in pairs(counts) do
    if more ~= 0 then
      -- A counter that another client has set to anything else than a whole number begins again.
      if totals[name] then
        local total = totals[name] + more
        known[#known + 1] = name; known[#known + 1] = whole(total >= more and total <= LAST_NUMBER and total or more)
      elseif type(redis.pcall('HINCRBY', stats, name, whole(more))) == 'table' then redis.call('HSET', stats, name, whole(more)) end
    end
  end
  if q.has_grown then known[#known + 1] = 'largest'; known[#known + 1] = whole(q.largest) end
  redis.call('HSET', stats, unpack(known))
end

-- There is work in main: leave one token for one waiting claimer.
local function leave_wake_token(q)
  if (q.wake_tokens or redis.call('LLEN', q.wake)) == 0 then redis.call('LPUSH', q.wake, '1') end
end

-- Calls fn(list, from, to) for slices that fit on Lua's stack.
local function sliced(list, step, fn)
  for from = 1, #list, step do fn(list, from, math.min(from + step - 1, #list)) end
end

-- Leases hold one entry that never ends, longer than 64 bytes: the server then keeps the set as a skip list from the first claim on, and
-- never as the short list that it would search from the start for each of a batch's claims (docs/decisions/clock-and-ages.md).
local KEEPER = 'keeps-this-set-a-skip-list-----------------------------------------'
local function busy_count(q) return math.max(redis.call('ZCARD', q.leases) - 1, 0) end

-- Delays an item until an instant in ms. What one call delays to one instant stays in its order: the score's fraction counts it.
local function put_delayed(q, due, envelope)
  note_size(q, #envelope)
  q.put = math.min((q.put or -1) + 1, 1023)
  redis.call('ZADD', q.delayed, fraction(due + q.put / 1024), envelope)
end

local function key_of(q, client)
  if client == '-' then return q.main end
  return q.main .. ':' .. client
end
