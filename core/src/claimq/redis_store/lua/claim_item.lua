#!lua flags=allow-oom
-- Purpose: moves one item from the place in main or delayed where it was found to busy, also if the queue is
--   paused, and whatever its limits: it counts for them.
-- KEYS: 1 cq:{NAME}:main (LIST); derived: main:CLIENT, their levels, wake (LIST), clients, heads, leases,
--   claims, workers, present, delayed, held (ZSET), busy:WORKER, config, levels, keys, delayed:clients,
--   stats, calls:INSTANCE (HASH)
-- ARGV: 1 to 7 as for claim (the count is 1), 8 id, 9 state (main or delayed), 10 client or "-", 11 position
--   as find returned it
-- Replies: {"OK", ...}, {"LOST", incarnation} and {"STALE"} as claim; {"MOVED"}: it is not within 100 places
--   of the position any more; {"FAR", items before it}: the server would take too long to remove it from its
--   list. With MOVED and FAR nothing is written.
-- Cost: finding and removing it from its list: O(places to the nearer end), at most 100,000; O(log delayed)
--   in delayed
-- include limits numbers clock queue has_key_limits types room sizes slices touch close wake call

local function claim_item()
  -- include read_within read_oldest id_check keeper expired enqueued_at delay weigh_out leave_delayed
  -- include levels oldest forget read_waiting tags lengths settle_client write_keys client_of place_of paused
  -- include before_claim limit_starts lease found_near

  local FAR = 100000
  local q = open(KEYS[1], {'DEL', 'HDEL', 'HINCRBY', 'HSET', 'LPUSH', 'LREM', 'LSET', 'PEXPIRE', 'ZADD',
    'ZREM'})
  local worker, nonce, id, state, client = ARGV[4], ARGV[6], ARGV[8], ARGV[9], ARGV[10]
  local again = kept_reply(q)
  if again then return claimed_again(q, again, worker, nonce) end
  check_permission(q.base, 'LINDEX', '0')
  expect_hash(q.base .. 'levels')
  expect_zset(q.clients)
  local c = before_claim(q, worker)
  before_lease(q, c)
  if q.incarnation == '' or q.incarnation ~= ARGV[7] then return lost_reply(q, 1, nonce) end

  -- Notes that the item takes its key, busy or not, and is held no longer. Returns the key, and its cost.
  local function take_its_key(envelope)
    -- include keys leave_held cost_of
    local key, place = key_of_item(envelope), place_of(envelope)
    if not key then return end
    local others = live_tokens(q, redis.call('HGET', q.base .. 'keys', key))
    local cost = cost_of(envelope)
    q.takers, q.others = {key, 1, cost}, {[key] = #others > 0 and table.concat(others, ' ') or nil}
    if place then leave_held(q, key, place) end
    return key, cost
  end

  -- Counts the item for the rates of its key. This claim notes new limits per key, as every claim does:
  -- under a limit that is not noted it would give nothing back. The held items go with the next claims.
  local function count_key(limits, key, cost)
    -- include start_limits limits_per key_field cost_bounds key_rates
    limits = in_force(q, limits)
    local text, before = limits_per(limits, 'key'), select(3, read_key_field(q)) or ''
    if text ~= before then write_key_field(q, table.concat({'1', whole(q.first), '+', text}, ' ')) end
    local key_rates = key_rates_of(q, limits, {})
    if not key_rates then return end
    key_rates.look({key})
    key_rates.count(key, cost)
    key_rates.write()
  end

  -- Counts the item for the share of its client.
  local function take_its_turn(name)
    -- include shares reserve slots turns
    read_shares(q, {name})
    begin_turn(q, name, turn_of(q).at)
    take_turn(q, name, 1)
  end

  local envelope, place = found_near(q, id, state, client, tonumber(ARGV[11]))
  if not envelope then return {'MOVED'} end
  if state == 'main' then
    local count, list, at, length = length_of(q, client), list_at(q, client, place)
    local to_nearer_end = math.min(at, length - 1 - at)
    if to_nearer_end > FAR then return {'FAR', to_nearer_end} end
    -- A list has no command that removes the element at an index: give it a value that no other has, and
    -- remove that.
    redis.call('LSET', list, whole(-1 - at), nonce)
    redis.call('LREM', list, to_nearer_end == at and -1 or 1, nonce)
    q.lengths[client] = count - 1
    if q.weighs then weigh_out(q, MAIN, {envelope}) end
    if client ~= '-' then settle_client(q, client, 1)
    elseif count == 1 then redis.call('ZREM', q.clients, client) end
  else
    redis.call('ZREM', q.delayed, envelope)
    leave_delayed(q, client_of(envelope), envelope)
  end
  local key, cost
  if q.has_keys then key, cost = take_its_key(envelope) end
  if c.is_late then redis.call('ZADD', q.workers, whole(q.now), worker) end
  note_size(q, #envelope)
  q.first, q.left = next_number(q), 0  -- no wake token was taken, so none is left for the others
  if c.limits or q.limits or q.pauses then limit_starts(q, c, 1) end
  if key and c.limits and has_key_limits(q, c.limits) then count_key(c.limits, key, cost) end
  local name = client_of(envelope)
  if q.park then
    q.park.begin()
    q.park.look({name})
    q.park.count(name, 1)
  end
  if q.costs then q.costs.count(name, envelope, 1) end
  if q.park then q.park.write() end
  q.is_full = q.limits and string.byte(q.limits) == 49  -- whether items wait for an end stays as it is
  if q.turns then take_its_turn(name) end
  local text = lease(q, c, {envelope}, nonce)
  close(q, counts_of(q, {envelope}, {}))
  keep_reply(q, text)
  return {'OK', text, envelope}
end
return claim_item()
