-- The fast path of an enqueue: one item without a client, options, a delay or an id of its own, for a queue
-- whose clock was written less than a second ago. It does what the rest of the script does for such a call,
-- in half the time, since it makes no functions and few tables (docs/decisions/scripts.md). If any condition
-- does not hold, it leaves with `break`, having written nothing, and the rest of the script handles the call.
repeat
  local instance, lane, call, queue, _, client, due, prefix, first, count, payload, more = unpack(ARGV, 1, 12)
  if more or not payload or queue ~= '1' or client ~= '-' or due ~= '' or prefix == '' or count ~= '1' then
    break
  end
  first = tonumber(first)
  if not (first and first >= 0 and first < LAST_NUMBER and first % 1 == 0) then break end
  if #KEYS > 2 or KEYS[2] and string.sub(KEYS[2], -5) == ':main' then break end
  local main, base = KEYS[1], string.sub(KEYS[1], 1, -5)
  if not redis.acl_check_cmd('HSET', base, base, base)
    or not redis.acl_check_cmd('LPUSH', base, base, base) then
    break
  end

  -- The queue's clock equals the server's and was written less than a second ago, by this server process; the
  -- queue has no priorities.
  local stats, time = base .. 'stats', redis.call('TIME')
  local seen = redis.call('HMGET', stats, 'server', 'levels', 'clock_offset', 'seen_at', 'seq', 'enqueued',
    'largest', 'client_items', 'bound')
  local server, levels, clock_offset, seen_at, seq, enqueued, largest, client_items, bound = unpack(seen)
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  if server ~= tostring(redis) or levels or (clock_offset and clock_offset ~= '0') then break end
  seen_at, seq, enqueued, largest = tonumber(seen_at), tonumber(seq), tonumber(enqueued), tonumber(largest)
  if not (seen_at and now >= seen_at and now - seen_at < 1000) then break end
  if not (seq and seq >= 0 and seq < LAST_NUMBER and seq % 1 == 0) then break end
  if not (enqueued and enqueued >= 0 and enqueued < LAST_NUMBER and enqueued % 1 == 0) then break end

  -- The call is newer than the last one of its lane, and the kept replies need no new expiry yet.
  local calls = base .. 'calls:' .. instance
  local last, refreshed = string.match(redis.call('HGET', calls, lane) or '', '^(%d+) (%d+) ')
  if not last or tonumber(last) >= tonumber(call) or now - tonumber(refreshed) > REFRESH_MS then break end

  -- The payload is within the limit, the largest item stays the largest, and the caller need not wait for a
  -- replica.
  local config = redis.call('HMGET', base .. 'config', 'max_payload', 'durability')
  local limit = tonumber(config[1] or DEFAULT_MAX_PAYLOAD)
  if not (limit and #payload <= limit and limit <= HIGHEST_MAX_PAYLOAD) or config[2] == 'replicated'
    or config[2] == 'fsynced' then
    break
  end
  local envelope = 'cq1 ' .. prefix .. string.format('%d %d', first, now) .. ' - -\n' .. payload
  if not (largest and #envelope <= largest) then break end
  if bound then  -- the item is within the bound on what waits; the rest of the script counts bytes
    local most = bound == '1' and redis.call('HGET', base .. 'config', 'max_waiting_items')
    if not most then break end
    local waiting, delayed = redis.pcall('LLEN', main), redis.pcall('ZCARD', base .. 'delayed')
    if type(waiting) ~= 'number' or type(delayed) ~= 'number' then break end
    if waiting + delayed + (tonumber(client_items) or 0) >= (tonumber(most) or LAST_NUMBER) then break end
  end
  local wake = base .. 'wake'
  local has_token = redis.call('LLEN', wake) > 0
  local length = redis.pcall('LPUSH', main, envelope)
  if type(length) ~= 'number' then break end  -- main is not a list, which the rest reports

  if not has_token then redis.call('LPUSH', wake, '1') end
  seq, enqueued = string.format('%d', seq + 1), string.format('%d', enqueued + 1)
  redis.call('HSET', stats, 'seq', seq, 'enqueued', enqueued)
  local text = seq .. string.format(' %d %d | ', now, length + (tonumber(client_items) or 0))
  redis.call('HSET', calls, lane, call .. ' ' .. refreshed .. ' ' .. text)
  return {'OK', text}
until true
