-- What a claim knows before it looks for items: the record c. Reads only.
local function before_claim(q, worker)
  local config = redis.call('HMGET', q.config, 'pauses', 'busy_expiry_ms', 'claim_wait_timeout_ms',
    'suspended', 'limits')
  local next_end, clients, key_end = next_pause_end(config[1])
  local ends, is_by_app
  if next_end then ends, is_by_app = paused_until(q, 'queue') end
  local due = redis.call('ZRANGE', q.delayed, '0', '0', 'WITHSCORES')[2]
  if due and tonumber(due) > LAST_MS then due = nil end  -- that of an item that is held for its key
  local is_overdue = redis.call('ZCOUNT', q.leases, '-inf', whole(q.now)) > 0
    and redis.call('ZCOUNT', q.leases, '-inf', whole(expired_by(q))) > 0
    or due and math.floor(tonumber(due)) <= q.now
  local look_at = tonumber(redis.call('ZRANGE', q.base .. 'present', '0', '0', 'WITHSCORES')[2])
  if look_at and look_at <= q.now then is_overdue = is_overdue or may_look(q)
  elseif look_at and look_at % 1 > 0 then  -- a process may be gone: look in time
    due = math.min(tonumber(due) or look_at, look_at)
  end
  if next_end then
    q.pauses, is_overdue = clients > 0 and clients, is_overdue or next_end <= q.now
    q.has_paused_keys = key_end > 0
    for _, at in ipairs({ends or NEVER_MS, key_end}) do
      if at > q.now and at < NEVER_MS then due = math.min(tonumber(due) or at, at) end
    end
  end
  local last_seen = redis.call('ZSCORE', q.workers, worker)
  local has_clients, by, weights, reserve = q.turns or q.client_items > 0, 'count', nil, nil
  if has_clients then
    by, weights, reserve = unpack(redis.call('HMGET', q.config, 'fairness_by', 'fairness_weights',
      'fairness_reserve'))
  end
  q.fairness = by == 'count' and 'count' or weights or ''
  local limits = config[5] and config[5] ~= '' and config[5]
  -- names this data on this server process; "" before its first claim
  q.incarnation = q.new_incarnation or q.stored_incarnation or ''
  return {
    worker = worker, paused = config[4] == '1' or ends, is_closed = is_by_app and config[4] ~= '1',
    expiry = config[2], wait = config[3], kept = reserve, limits = limits, due = due,
    overdue = is_overdue and 1 or 0,
    rate_flag = limits and string.find(limits, ' rate ', 1, true) and 4 or 0,  -- for OVERDUE of a reply
    is_late = not last_seen or q.now - tonumber(last_seen) >= 5000,
  }
end
