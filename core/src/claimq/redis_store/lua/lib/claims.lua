-- Live claims: a token "WORKER/NUMBER.NONCE" is a member of leases and a field of its worker's busy hash. Tokens are compared whole: the
-- nonce is fresh with every claim call, so that a token from before a loss of data never names a later claim.
-- ARGV[at] is a number of groups; a group is WORKER, COUNT and COUNT tokens of that worker. Verdicts are in that order.
local function read_claims(q, at)
  local groups = {}
  local count, total = count_of(ARGV[at], 0), 0
  at = at + 1
  for g = 1, count do
    local size = count_of(ARGV[at + 1], 1)
    total = total + size
    if g > 1 then count_of(total, 1) end
    groups[g] = {worker = ARGV[at], busy = q.base .. 'busy:' .. ARGV[at], tokens = {unpack(ARGV, at + 2, at + 1 + size)}}
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

-- Cuts the groups where their items reach FREED_BYTES; returns the number of tokens that are left for later calls.
-- On demand: items are seldom so large.
local function cut_groups(q, groups)
  local freed, left = 0, 0
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

-- A call that ends claims frees their items, so it ends with the item that reaches FREED_BYTES. Sizes are asked for only where the largest item of
-- the queue could make them matter.
local function leave_for_later(q, groups)
  local count = 0
  for i = 1, #groups do count = count + #groups[i].tokens end
  return count * q.largest > FREED_BYTES and cut_groups(q, groups) or 0
end

-- Keeps the first `count` tokens of all groups; returns the number of the others, which are left for later calls.
-- On demand: few calls have so many followers.
local function keep_first(groups, count)
  local left = 0
  for _, group in ipairs(groups) do
    local size = #group.tokens
    local kept = math.min(size, count)
    group.tokens, count, left = {unpack(group.tokens, 1, kept)}, count - kept, left + size - kept
  end
  return left
end

-- The verdicts of a call as text, with "later" for those that were left.
local function verdict_text(verdicts, left)
  local text = table.concat(verdicts, ' ')
  return left == 0 and text or text .. string.rep(' later', left)
end

-- Ends all claims of the groups that are held, and returns 'done' or 'lost' for each. Removing a claim that is not held changes nothing, so all are
-- removed at once; one by one only if some had no lease: then their items in busy say which of them were held.
local function end_held(q, groups)
  local verdicts, lost = {}, 0
  for _, group in ipairs(groups) do
    local busy, tokens, before = group.busy, group.tokens, #verdicts
    local are_leased = #tokens > 0 and redis.call('ZREM', q.leases, unpack(tokens)) == #tokens
    if are_leased then redis.call('HDEL', busy, unpack(tokens)) end
    for i = 1, #tokens do
      local verdict = 'done'
      if not are_leased and redis.call('HDEL', busy, tokens[i]) == 0 then verdict, lost = 'lost', lost + 1 end
      verdicts[before + i] = verdict
    end
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

-- The number of a token, as text; it orders the claims of a queue. The pattern begins at the start of the text: else a long one takes minutes.
local function number_of(token)
  return string.match(token, '^.*/(%d+)') or '0'
end
