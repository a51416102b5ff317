#!lua flags=allow-oom
-- Purpose: gives claims back with the verdict fail, permanent, drop, requeue, postpone, crash or interrupt:
--   each item goes where its counters and the policy say.
-- KEYS: 1 cq:{NAME}:main (LIST); derived: main:CLIENT, their levels, wake, removed (LIST), clients, heads,
--   leases, delayed, failed (ZSET), busy:WORKER, failed:items, failed:reasons, delayed:clients, config,
--   levels, stats, calls:INSTANCE (HASH)
-- ARGV: 1 instance, 2 lane, 3 call number, 4 kind ("postpone queue", "client" or "key": that also closes the
--   queue, or the clients or keys of the items, for the delay, at most a day), 5 error, 6 its detail
--   (8 KiB each at most), 7 delay in ms, or "" for the policy's, 8.. claims as lib/claims.lua reads them
-- Replies: {"OK", "VERDICT..."}: requeued, delayed:MS, failed, dropped, unclaimed, lost, or later (left for
--   another call) for each claim; {"STALE"}. If all are lost nothing is written.
-- Cost: O(claims log n), at most 100 items or 2 MiB (1 MiB to delayed); for the head also reading up to 1,000
--   items (2 MiB) that were given back before
-- include limits numbers clock queue types counts room sizes check_text slices touch close wake call claims

local function give_back()
  -- include enqueued_at stored delay envelope levels oldest enter_level tags entry_tags lengths main
  -- include expect_entry find_held end_turns end_claims longest removed shape reasons put_failed place_of
  -- include head free_keys settle

  local q = open(KEYS[1], {'HDEL', 'HINCRBY', 'HSET', 'LPUSH', 'LTRIM', 'PEXPIRE', 'RPUSH', 'ZADD', 'ZREM'})
  local again = kept_reply(q)
  if again then return again end
  check_text(ARGV[5], ARGV[6])

  -- Takes the starts of items that come back before their app began out of the rates: as much of each as the
  -- rate has not given to other items since. Returns the clients that may start more.
  local function return_starts(q, text, items)
    -- include start_limits limits_per bands key_field
    text = in_force(q, text)
    local function levels_after(rates, returned, since)
      local texts = {}
      for i, rate in ipairs(rates) do
        for _, item in ipairs(returned) do
          local counts = item.number >= math.max(rate.from, since)
          local units = units_of(rate, item.meta.options and item.meta.options.cost or 1)
          local more = counts and math.min(units * rate.period, rate.low, rate.level) or 0
          rate.level, rate.low = rate.level - more, rate.low - more
        end
        texts[i] = level_text(rate)
      end
      return table.concat(texts)
    end
    -- The same for what each client, or each key, has; name_of: its field of `starts`. Only claims of the
    -- number since, or later ones, have counted. Returns the names.
    local function return_each(scope, name_of, since, before)
      local rates, items_of, names, words = limits_of(text, scope), {}, {}, {}
      since = before == limits_per(text, scope) and tonumber(since) or math.huge
      for _, item in ipairs(#rates > 0 and items or {}) do
        local name = name_of(item)
        if name then
          if not items_of[name] then items_of[name], names[#names + 1] = {}, name end
          table.insert(items_of[name], item)
        end
      end
      local stored = #names > 0 and redis.call('HMGET', q.base .. 'starts', unpack(names)) or {}
      for i, name in ipairs(names) do
        for _, rate in ipairs(rates) do read_level(q, rate, stored[i]) end
        words[2 * i - 1], words[2 * i] = name, levels_after(rates, items_of[name], since)
      end
      if #words > 0 then redis.call('HSET', q.base .. 'starts', unpack(words)) end
      return names
    end
    local _, _, _, number, before = read_bands(q)
    local names = return_each('client', function(item) return item.client ~= '-' and item.client end, number,
      before)
    local since, _, limits = read_key_field(q)
    return_each('key', function(item)
      local key = item.meta.options and item.meta.options.key
      return key and 'key ' .. key
    end, since, limits)
    q.limits = string.sub(q.limits, 1, 1) .. bands_of(q) .. levels_after(read_limits(q, text, 0), items, 0)
    q.has_starts = true
    return names
  end

  local function unpark_clients(q, names)
    -- include return_turns
    return_turns(q, names)
  end

  local LONGEST_CLOSING_MS = 86400000
  local function check_close(q)
    -- include paused pauses pause
    check_pauses(q)
  end
  -- Closes the queue, or what the items have of this unit. An item without a client or key closes nothing,
  -- nor does one more than may be paused.
  local function close_parts(q, unit, items, worker, text, delay)
    -- include paused pauses pause
    local parts = {queue = true}
    if unit ~= 'queue' then
      parts = {}
      for _, item in ipairs(items) do
        local key = unit == 'key' and item.meta.options and item.meta.options.key
        local client = unit == 'client' and item.client ~= '-' and item.client
        if key or client then parts[unit .. ' ' .. (key or client)] = true end
      end
    end
    for part in pairs(parts) do
      close_until(q, part, q.now + math.min(delay, LONGEST_CLOSING_MS), worker, text)
    end
  end

  -- Takes the claims in the order of claiming, however they were named. Interrupted ones are taken newest
  -- first, since what goes to the head later stands before what went there earlier: those that are left for
  -- another call must be older.
  local function give_back(q, at, kind, error, detail, delay)
    local groups = read_claims(q, at)
    local verdicts, lost = find_held(q, groups)
    if lost == #verdicts then return verdicts end
    local policy, held, items, decided = policy_of(q), {}, {}, {}
    q.counts = {}
    for _, group in ipairs(groups) do
      for i, token in ipairs(group.tokens) do
        local position = group.first + i
        if verdicts[position] == '' then
          verdicts[position], held[#held + 1] = 'later',
            {group = group, token = token, number = tonumber(number_of(token)), position = position}
        end
      end
      group.live = {}
    end
    local newest_first = kind == 'interrupt'
    if COUNTER[kind] == 'fails' and held[1] then note_longest(q, held[1].token) end
    table.sort(held,
      function(a, b) if newest_first then return a.number > b.number end return a.number < b.number end)
    for i, claim in ipairs(held) do
      local group, position = claim.group, claim.position
      local envelope = redis.call('HGET', group.busy, claim.token)
      group.live[#group.live + 1], verdicts[position] = claim.token, 'lost'
      if envelope then
        local item = parse(q, envelope, number_of(claim.token))
        expect_entry(q, item)
        item.number, item.token = claim.number, claim.token
        item.verdict = settle(q, policy, item, kind, error, group.worker, delay, detail)
        verdicts[position], items[#items + 1] = item.verdict, item
        if item.delay and item.delay > 0 then
          verdicts[position] = verdicts[position] .. ':' .. whole(item.delay)
        end
        if not has_room(q, #envelope * weight_of(item.verdict)) or #items == CALL_MOVES then break end
      end
    end
    table.sort(items, function(a, b) return a.number < b.number end)
    for i, item in ipairs(items) do decided[i] = item.verdict end
    local has_begun = not newest_first or error ~= ''
    q.unused = not has_begun
    local returns = policy.limits and q.limits and not has_begun
    local names = returns and return_starts(q, policy.limits, items) or {}
    place(q, policy, items, decided)
    if #names > 0 then unpark_clients(q, names) end
    for _, group in ipairs(groups) do end_claims(q, group.busy, group.live) end
    if COUNTER[kind] then q.counts[kind == 'permanent' and 'fails' or COUNTER[kind]] = #items end
    return verdicts, items
  end

  local kind, unit = string.match(ARGV[4], '^(%l+) ?(%l*)$')
  if unit ~= '' then check_close(q) end
  local verdicts, items = give_back(q, 8, kind, ARGV[5], ARGV[6], tonumber(ARGV[7]))
  local text = table.concat(verdicts, ' ')
  if items then
    if unit ~= '' then close_parts(q, unit, items, ARGV[9], ARGV[5], tonumber(ARGV[7]) or 0) end
    close(q, q.counts)
    keep_reply(q, text)
  end
  return {'OK', text}
end
return give_back()
