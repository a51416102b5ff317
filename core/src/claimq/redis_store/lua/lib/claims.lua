-- Live claims: a token "WORKER/NUMBER.NONCE" is a member of leases and a field of its worker's busy hash.
-- Tokens are compared whole: the nonce is fresh with every claim call, so that a token from before a loss of
-- data never names a later claim. ARGV[at] is a number of groups; a group is WORKER, COUNT and COUNT tokens
-- of that worker. Verdicts are in that order.
local function read_claims(q, at)
  local groups = {}
  local count, total = count_of(ARGV[at], 0), 0
  at = at + 1
  for g = 1, count do
    local size = count_of(ARGV[at + 1], 1)
    total = total + size
    if g > 1 then count_of(total, 1) end
    groups[g] = {worker = ARGV[at], busy = q.base .. 'busy:' .. ARGV[at],
      tokens = {unpack(ARGV, at + 2, at + 1 + size)}}
    at = at + 2 + size
  end
  return groups, at
end
