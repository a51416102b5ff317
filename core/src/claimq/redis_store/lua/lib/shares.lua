-- Turns by processing time (start-time fair queueing). A tag is time that a client has had, in UNITs of a
-- millisecond. The hash `shares` has BASE, TAG, COUNT, MEAN, WEIGHT and DRAINED_AT (lib/reserve.lua) for a
-- client: COUNT of its items are in progress, and count as MEAN each until they end; all others are in BASE.
-- TAG is its last tag in the ring: with another one there it has entered the ring since.
--
-- The field `turns` of stats has "AT MEAN": the highest tag that had a turn, where a client enters the ring,
-- and the mean of all clients. It is there from the first claim on that several clients share; until then no
-- call pays for this. (docs/decisions/fairness.md)
local UNIT = 64
local LEAST = 1 / 8  -- the share of an end in a mean

-- Returns AT and MEAN as a record, which close() writes. corrected: how many clients this call has put behind
-- others without an item.
local function turn_of(q)
  if not q.turn then
    local at, mean = string.match(q.turns or '', '^(%d+) (%d+)$')
    q.turn = {at = number_in(at, 0, PARKED - 1), mean = number_in(mean, 0, PARKED),
      corrected = 0}
  end
  return q.turn
end

-- What an item of a client in progress counts: at least a millisecond.
local function charge_of(q, share)
  local mean = share.mean > 0 and share.mean or turn_of(q).mean
  return (mean > UNIT and mean or UNIT) / share.weight
end

local function position_of(q, share) return share.base + share.count * charge_of(q, share) end

-- The tag of a client in the ring.
local function tag_of(q, share)
  return math.max(0, math.min(math.floor(position_of(q, share)), PARKED - 1))
end

-- The weights of the policy, which a call knows if it claims: a function of client and stored weight.
local function weights_by_policy(q)
  if not q.fairness then return function(_, stored) return stored or 1 end end
  if q.fairness == '' then return function() return 1 end end
  local text = '\n' .. q.fairness
  return function(name)
    local _, at = string.find(text, '\n' .. name .. ' ', 1, true)
    return setting(at and string.match(text, '^[%d.]+', at + 1), 1, 0.001, 1000)
  end
end

local function write_shares(q)
  -- include slices share_numbers
  local words = {}
  for name, share in pairs(q.shares) do
    if share.is_changed then
      words[#words + 1], words[#words + 2] = name,
        struct.pack(SHARE, share.base, share.tag, share.count, share.mean, share.weight,
          share.drained_at)
    end
  end
  sliced(words, function(...) redis.pcall('HSET', q.base .. 'shares', ...) end)
end

-- Reads the shares of these clients. A key of another type has none.
local function read_shares(q, clients)
  -- include share_numbers
  local names = {}
  q.shares, q.write_shares = q.shares or {}, write_shares
  for i = 1, #clients do
    if not q.shares[clients[i]] then names[#names + 1] = clients[i] end
  end
  if #names == 0 then return end
  local texts = redis.pcall('HMGET', q.base .. 'shares', unpack(names))  -- an error has no words
  local weight_of_client = weights_by_policy(q)
  for i, name in ipairs(names) do
    local base, tag, count, mean, weight, drained_at = share_numbers(texts[i])
    q.shares[name] = {base = base, tag = tag or 0, count = count or 0, mean = mean or 0,
      weight = weight_of_client(name, weight), drained_at = drained_at or 0}
  end
end
