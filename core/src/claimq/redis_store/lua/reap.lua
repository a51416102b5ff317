#!lua flags=allow-oom
-- Purpose: one bounded sweep: expired leases, and claims of processes that are gone, by policy (uncounted
--   after the server was replaced), then delayed items that are due to the tail of main, or to the head if
--   others of their keys wait behind them. It also removes pauses that are over.
-- KEYS: 1 cq:{NAME}:main (LIST); derived: main:CLIENT, their levels, wake, removed (LIST), clients, heads,
--   leases, present, delayed, failed (ZSET), busy:WORKER, failed:items, failed:reasons, delayed:clients,
--   config, levels, pauses, stats (HASH)
-- ARGV: 1 limit (at most 100 items and 2 MiB, 1 MiB to or from delayed, are moved; it then answers that there
--   is more)
-- Replies: {"OK", now, due, orphans, more 0|1, then TOKEN, ID, VERDICT for each expired claim}
-- Cost: O(limit log n + claims of the workers of up to 100 processes that are gone, 5,000 at most)
-- include limits numbers clock queue has_key_limits types counts room sizes slices touch close wake

local function reap()
  -- include expired enqueued_at stored delay weigh_out leave_delayed envelope levels oldest enter_level tags
  -- include entry_tags lengths main expect_entry end_turns end_claims removed shape reasons put_failed
  -- include place_of head free_keys settle paused

  local q = open(KEYS[1], {'HDEL', 'HINCRBY', 'HSET', 'LPUSH', 'LTRIM', 'RPUSH', 'ZADD', 'ZREM'})
  local limit = math.min(count_of(ARGV[1], 1), CALL_MOVES)
  local policy = policy_of(q)
  local function let_go()
    -- include start_limits key_limits
    return let_keys_go(q, in_force(q, policy.limits or ''))
  end
  local next_pause = next_pause_end(redis.call('HGET', q.config, 'pauses'))
  local function pauses_over()
    -- include pauses pause
    check_pauses(q)
    return select(2, read_pauses(q))
  end
  local over = next_pause and next_pause <= q.now and pauses_over()

  -- The tokens of the leases that ended. Those that began with another server process come first, and alone:
  -- their verdicts or renewals may have been lost with that, so nothing is counted, and the items go back to
  -- the head. These have the earliest ends. Also whether they are such, and whether there are others.
  local function read_expired()
    local page, expired = redis.call('ZRANGEBYSCORE', q.leases, '-inf', whole(expired_by(q)), 'WITHSCORES',
      'LIMIT', 0, whole(limit)), {}
    -- the second is what seen_at may be behind
    policy.since = q.server_since or number_in(redis.call('HGET', q.stats, 'server_since'), 0, q.now)
    local began_before = policy.since + policy.expiry + 1000
    local is_lost = page[2] and tonumber(page[2]) <= began_before
    for i = 1, #page, 2 do
      if is_lost and tonumber(page[i + 1]) > began_before then break end
      expired[#expired + 1] = page[i]
    end
    return expired, is_lost, 2 * #expired < #page
  end

  -- Adds the tokens of processes that are gone. Returns those, and what notes the looks: `room` is false if
  -- claims of these may be left.
  local function look_for_gone(expired, want)
    -- include channel presence
    local found, is_gone = look(q, policy, want), {}
    for _, token in ipairs(expired) do is_gone[token] = false end
    for _, token in ipairs(found.tokens) do
      if is_gone[token] == nil then is_gone[token], expired[#expired + 1] = true, token end
    end
    return is_gone, function(room)
      if not room then found.away, found.more = {}, true end
      note_looks(q, found)
      return found.more
    end
  end

  local expired, is_lost, is_cut = read_expired()
  local kind = is_lost and 'interrupt' or 'expired'
  local is_gone, note = look_for_gone(expired, is_lost and 0 or limit - #expired)
  -- Another Redis client may have left a lease that names none.
  local function worker_of(token) return string.match(token, '^(.*)/') or '' end
  local items, verdicts, orphans, reply, ended, room = {}, {}, 0, {}, {}, true
  length_of(q, '-')
  table.sort(expired, function(a, b) return tonumber(number_of(a)) < tonumber(number_of(b)) end)
  for _, token in ipairs(expired) do
    local worker = worker_of(token)
    local envelope = redis.call('HGET', q.base .. 'busy:' .. worker, token)
    ended[#ended + 1] = token
    if envelope then
      local item = parse(q, envelope, number_of(token))
      expect_entry(q, item)
      item.number, item.token = tonumber(number_of(token)), token
      local why = 'the lease of ' .. worker .. ' ran out'
        .. (is_lost and ' after the server was replaced' or '')
      if is_gone[token] then why = 'the process of ' .. worker .. ' is gone: its connection closed' end
      local verdict = settle(q, policy, item, kind, why, worker)
      items[#items + 1], verdicts[#verdicts + 1] = item, verdict
      reply[#reply + 1] = token; reply[#reply + 1] = item.id; reply[#reply + 1] = verdict
      room = has_room(q, #envelope * weight_of(verdict))
      if not room then break end
    else orphans = orphans + 1 end
  end

  -- The delayed items that are due, as they are stored, and parsed.
  local function read_due(want)
    -- include read_within
    local arrived = {}
    return read_within(q, want, function(skip, count)
      local page = redis.call('ZRANGEBYSCORE', q.delayed, '-inf', '(' .. whole(q.now + 1), 'LIMIT',
        whole(skip), whole(count))
      local bytes = 0
      for _, envelope in ipairs(page) do
        local item = parse(q, envelope, '0')
        expect_entry(q, item)
        arrived[#arrived + 1] = item
        bytes = bytes + #envelope * (weight_of('delayed') - 1)
      end
      return page, bytes
    end), arrived
  end

  local due, arrived = read_due(limit - #ended)
  q.counts = {}
  place(q, policy, items, verdicts)
  local has_more_gone = note(room)
  for _, token in ipairs(ended) do end_claims(q, q.base .. 'busy:' .. worker_of(token), {token}) end
  sliced(due, function(...) redis.call('ZREM', q.delayed, ...) end)

  local function end_old_pauses()
    -- include pauses pause
    return end_pauses(q, over)
  end

  -- Whether others of its key wait behind the item; now it is not in their way any more.
  local function had_gate(item)
    -- include keys leave_held
    local meta = item.meta
    local key = meta.place and meta.options and meta.options.key
    return key and leave_held(q, key, meta.place)
  end

  local ahead = {}
  for i, item in ipairs(arrived) do
    leave_delayed(q, item.client, due[i])
    if q.has_keys and had_gate(item) then ahead[#ahead + 1] = item
    else
      restart_wait(item, q.now)
      tail(q, item.client, {format(item)}, enter_level(q, item.client, level_of(item.meta)))
    end
  end
  if q.entering then enter_ring(q) end
  to_heads(q, ahead)
  -- now: before, it would let the next items of keys pass those that have arrived
  local released, has_more_keys = over and end_old_pauses() or 0, false
  if has_key_limits(q, policy.limits) then
    local let, more = let_go()
    released, has_more_keys = released + let, more
    if let > 0 then leave_wake_token(q) end
  end
  if #arrived > 0 then leave_wake_token(q) end
  local crashes = is_lost and 0 or #items
  q.counts.crashes, q.counts.expired = crashes, crashes
  q.counts.due, q.counts.repaired = #due, orphans
  if #ended + #due + released > 0 then close(q, q.counts) else touch(q) end
  return {'OK', whole(q.now), #due + released, orphans, (#ended + #due >= limit or is_cut or has_more_gone
    or has_more_keys or not has_room(q, 0)) and 1 or 0, unpack(reply)}
end
return reap()
