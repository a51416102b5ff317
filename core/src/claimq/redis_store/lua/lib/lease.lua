-- Claiming: the leases of the items that a call took, and its reply when the call is sent again. The record c
-- has what before_claim() read.

-- Reads what a claim needs that takes items, and checks permissions and the types of the keys. Reads only.
-- slots: how many the worker has, if it names them.
local function before_lease(q, c, slots)
  c.busy = q.base .. 'busy:' .. c.worker
  expect_hash(c.busy)
  if q.has_keys then
    check_permission(q.base, 'HGET', '0')
    check_permission(q.base, 'HEXISTS', '0')
    expect_hash(q.base .. 'keys')
    expect_zset(q.base .. 'held')
  end
  expect_key_limits(q, c.limits)
  local limits = c.limits
  if limits and string.find(limits, ' c', 1, true) then  -- " client " or " cost"
    expect_hash(q.base .. 'starts')
    expect_hash(q.base .. 'in_progress')
  end
  c.leased, c.calls = redis.call('ZCARD', q.leases), redis.call('ZCARD', q.base .. 'claims')
  local kept = q.fairness ~= 'count' and setting(c.kept, 0.1, 0, 0.5) or 0
  if kept > 0 then
    q.claimer = {worker = c.worker, slots = tonumber(slots or ''), share = kept, ending = 0,
      leased = c.leased}
  end
  q.wake_tokens = redis.call('LLEN', q.base .. 'wake')
end

-- Refuses what take() refuses. Reads only.
local function check_lists(q, want)
  check_permission(q.base, 'LINDEX', '0')
  check_permission(q.base, 'LRANGE', '0', '0')
  local turn = redis.call('ZRANGE', q.clients, '0', whole(want - 1))
  if #turn > 0 then expect_zset(q.heads) end
  for _, client in ipairs({'-', unpack(turn)}) do
    for _, list in ipairs(lists_of(q, client)) do expect_list(list) end
  end
  if q.has_levels then expect_hash(q.base .. 'levels') end
end

-- A call that was withdrawn may arrive late, after a loss of the data that made it stale. It must not lease
-- items to a process that is gone, so only a caller that knows this data claims. The nonce of the first call
-- names the data. This is the reply to a caller that does not know it.
local function lost_reply(q, count, nonce)
  check_lists(q, count)
  if q.incarnation == '' then
    q.incarnation, q.new_incarnation = nonce, nonce
    redis.call('HSET', q.stats, 'incarnation', nonce)
    touch(q)
  end
  return {'LOST', q.incarnation}
end

-- Numbers of claims grow with the clock, in microseconds, and so also over a loss of data: no queue makes a
-- million claims in a second.
local function next_number(q) return math.max(q.totals.number + 1, q.now * 1000) end

local function keep_order(q, nonce)
  -- include order
  write_order(q, nonce)
end

-- Leases what was taken: at least one item. Returns "SEQ NOW FIRST COUNT LEASE_END OVERDUE INCARNATION"; the
-- tokens are WORKER/FIRST.NONCE and on.
local function lease(q, c, envelopes, nonce)
  local lease_end, holding, leasing, first = whole(q.now + lease_ms(c.expiry)), {}, {}, q.first
  local before, behind, last = c.worker .. '/', '.' .. nonce, first - 1
  for i = 1, #envelopes do
    local token = before .. format_text('%d', last + i) .. behind
    holding[2 * i - 1], holding[2 * i] = token, envelopes[i]
    leasing[2 * i - 1], leasing[2 * i] = lease_end, token
  end
  redis.call('HSET', c.busy, unpack(holding))
  if q.takers then write_keys(q, holding) end
  if c.note_starts then c.note_starts(#envelopes) end
  if c.leased <= 0 then redis.call('ZADD', q.leases, '+inf', KEEPER) end
  redis.call('ZADD', q.leases, unpack(leasing))
  -- 1: only KEEPER is left, so all logged calls have ended. 0: the leases were lost, and the log
  -- names the workers.
  if c.leased == 1 and c.calls > 0 then redis.call('DEL', q.base .. 'claims', q.base .. 'turns') end
  redis.call('ZADD', q.base .. 'claims', whole(q.now),
    format_text('%d %d ', first, #envelopes) .. nonce .. ' ' .. c.worker)
  if q.order then keep_order(q, nonce) end
  if q.left > 0 then leave_wake_token(q) end
  -- not with each claim while all of the logged calls are live
  local asks_for_repair = c.calls > 256 and c.calls % 128 == 0
  return format_text('%d %d %d %d ', q.seq, q.now, first, #envelopes) .. lease_end .. ' '
    .. whole(c.overdue + (asks_for_repair and 2 or 0) + c.rate_flag) .. ' ' .. q.incarnation
end

-- What close() counts of a claim.
local function counts_of(q, envelopes, counts)
  -- places of held items are numbers behind those of the call's tokens
  local last = q.waiting and q.last + q.waiting or q.first + #envelopes - 1
  counts.claimed, counts.number = #envelopes, last - q.totals.number
  counts.adopted = q.adopted or 0
  if q.past then for name, more in pairs(q.counts) do counts[name] = more end end
  return counts
end

-- The envelopes for the reply: of those that the caller cannot take, the number of their bytes. All of them
-- are leased to it.
local function without_larger(envelopes, largest)
  local most = tonumber(largest)
  if most then
    for i = 1, #envelopes do
      if envelopes[i] and #envelopes[i] > most then envelopes[i] = #envelopes[i] end
    end
  end
  return envelopes
end

-- The reply of a call that was sent again: as the first time, with false for a claim that has ended since.
local function claimed_again(q, reply, worker, nonce, largest)
  if reply[1] == 'STALE' then return reply end
  local first, count = string.match(reply[2], '^%d+ %d+ (%d+) (%d+)')
  local tokens = {}
  for i = 1, tonumber(count) do tokens[i] = worker .. '/' .. whole(first + i - 1) .. '.' .. nonce end
  if #tokens == 0 then return reply end
  local held = redis.call('HMGET', q.base .. 'busy:' .. worker, unpack(tokens))
  for _, envelope in ipairs(without_larger(held, largest)) do reply[#reply + 1] = envelope end
  return reply
end
