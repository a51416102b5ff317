-- Live claims: a token "WORKER/NUMBER.NONCE" is a member of leases and a field of its worker's busy hash. Tokens are compared whole: the
-- nonce is fresh with every claim call, so that a token from before a loss of data never names a later claim.
-- ARGV[at] is a number of groups; a group is WORKER, COUNT and COUNT tokens of that worker. Verdicts are in that order.
local function read_claims(q, at)
  local groups = {}
  local count, total = count_of(ARGV[at], 0), 0
  at = at + 1
  for g = 1, count do
    local tokens, size = {}, count_of(ARGV[at + 1], 1)
    total = total + size
    count_of(total, 1)
    for i = 1, size do tokens[i] = ARGV[at + 1 + i] end
    groups[g] = {worker = ARGV[at], busy = q.base .. 'busy:' .. ARGV[at], tokens = tokens}
    at = at + 2 + size
  end
  return groups, at
end

-- Finds which of the claims are held: group.live, and the verdicts so far ('' where held, 'lost' where not). Reads only.
local function find_held(q, groups)
  local verdicts, seen, lost = {}, {}, 0
  for _, group in ipairs(groups) do
    expect_hash(group.busy)
    group.live, group.first = {}, #verdicts
    sliced(group.tokens, 1000, function(tokens, from, to)
      for i, lease_end in ipairs(redis.call('ZMSCORE', q.leases, unpack(tokens, from, to))) do
        local token = tokens[from + i - 1]
        if lease_end and not seen[token] then
          seen[token] = true
          group.live[#group.live + 1] = token
          verdicts[#verdicts + 1] = ''
        else
          verdicts[#verdicts + 1] = 'lost'
          lost = lost + 1
        end
      end
    end)
  end
  return verdicts, lost
end

-- A call that ends claims frees their items, so it ends with the item that reaches FREED_BYTES. Cuts the groups there; returns the number of tokens
-- that are left for later calls. Sizes are asked for only where the largest item of the queue could make them matter.
local function leave_for_later(q, groups)
  local count, freed, left = 0, 0, 0
  for _, group in ipairs(groups) do count = count + #group.tokens end
  if count * q.largest <= FREED_BYTES then return 0 end
  for _, group in ipairs(groups) do
    local now = {}
    for _, token in ipairs(group.tokens) do
      if freed >= FREED_BYTES then left = left + 1
      else now[#now + 1], freed = token, freed + redis.call('HSTRLEN', group.busy, token) end
    end
    group.tokens = now
  end
  return left
end

-- The verdicts of a call as text, with "later" for those that were left.
local function verdict_text(verdicts, left)
  return table.concat(verdicts, ' ') .. string.rep(' later', left)
end

-- Ends all claims of the groups that are held, and returns 'done' or 'lost' for each. Removing a claim that is not held changes nothing, so all
-- are removed at once; the leases are read only if some were not there, to learn which.
local function end_held(q, groups)
  local verdicts, lost, seen = {}, 0, {}
  expect_zset(q.leases)
  check_permissions(q.base, {'ZMSCORE'})
  if #groups > 1 then for _, group in ipairs(groups) do expect_hash(group.busy) end end
  for _, group in ipairs(groups) do
    sliced(group.tokens, 1000, function(tokens, from, to)
      local ended = redis.call('HDEL', group.busy, unpack(tokens, from, to))
      local leases = ended <= to - from and redis.call('ZMSCORE', q.leases, unpack(tokens, from, to))
      for i = from, to do
        local is_lost = leases and (not leases[i - from + 1] or seen[tokens[i]])
        if leases then seen[tokens[i]] = true end
        verdicts[#verdicts + 1] = is_lost and 'lost' or 'done'
        if is_lost then lost = lost + 1 end
      end
      if ended > 0 then redis.call('ZREM', q.leases, unpack(tokens, from, to)) end
    end)
  end
  return verdicts, lost
end

-- Ends claims: removes them from leases and from the busy hash of their worker.
local function end_claims(q, busy, tokens)
  sliced(tokens, 1000, function(list, from, to)
    redis.call('ZREM', q.leases, unpack(list, from, to))
    redis.call('HDEL', busy, unpack(list, from, to))
  end)
end

-- The number of a token, as text; it orders the claims of a queue.
local function number_of(token)
  return string.match(token, '/(%d+)[^/]*$') or '0'
end
