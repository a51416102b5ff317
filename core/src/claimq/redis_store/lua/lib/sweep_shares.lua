-- Ends shares of clients that are gone and owe nothing, and entries of `turns` whose claim calls have ended.
-- One page after the other. Without shares of several clients the queue counts no turns until they share it
-- again: but not while slots are kept free.
local function sweep_shares(q, ended, limit)
  -- include shares reserve
  local key, turns, nonces, gone = q.base .. 'shares', q.base .. 'turns', {}, {}
  for i, call in ipairs(ended) do nonces[i] = string.match(call, '^%d+ %d+ (%S+) ') or '' end
  if #nonces > 0 then redis.pcall('HDEL', turns, unpack(nonces)) end
  local is_idle = redis.call('ZCARD', q.leases) <= 1
  if is_idle then redis.call('DEL', turns) end
  local from = string.match(redis.call('HGET', q.stats, 'repair_share') or '', '^%d+$') or '0'
  local page = redis.pcall('HSCAN', key, from, 'COUNT', whole(limit))
  local names = {}
  for i = 1, page.err and 0 or #page[2], 2 do names[#names + 1] = page[2][i] end
  local tags = #names > 0 and redis.pcall('ZMSCORE', q.clients, unpack(names)) or {}
  read_shares(q, names)
  for i, name in ipairs(names) do
    local share = q.shares[name]
    -- items whose leases are lost may still be in progress: their ends count nothing now
    if is_idle and share.count > 0 then share.count, share.is_changed = 0, true end
    local owes = share.base and (share.count > 0 or share.base > turn_of(q).at)
    if not (tags[i] or owes) and share.drained_at <= q.now then
      gone[#gone + 1] = name
    end
  end
  write_shares(q)
  if #gone > 0 then redis.call('HDEL', key, unpack(gone)) end
  if not page.err and page[1] ~= from then redis.call('HSET', q.stats, 'repair_share', page[1]) end
  local ring, left = redis.pcall('ZRANGE', q.clients, '0', '1'), redis.pcall('HLEN', key)  -- errors are none
  local is_alone = #ring <= 1 and not is_kept(q, read_reserve(q).quiet_at)
  if is_alone and left == 1 and (not ring[1] or redis.call('HGET', key, ring[1])) then left = 0 end
  if left == 0 and (is_idle or is_alone) then
    redis.call('HDEL', q.stats, 'turns', 'repair_share', 'reserve')
    redis.call('DEL', key, turns, q.base .. 'slots')
    if ring[1] == '-' and not ring[2] then redis.call('ZREM', q.clients, '-') end
    q.turn, q.write_shares = nil, nil
  end
end
