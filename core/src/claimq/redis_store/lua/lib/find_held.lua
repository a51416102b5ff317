-- Finds which of the claims are held. Sets group.live; returns a verdict for each claim ('' if it is held,
-- 'lost' if not), and how many are lost. Reads only.
local function find_held(q, groups)
  local verdicts, seen, lost = {}, {}, 0
  for _, group in ipairs(groups) do
    expect_hash(group.busy)
    group.live, group.first = {}, #verdicts
    local lease_ends = {}
    sliced(group.tokens, function(...)
      for _, lease_end in ipairs(redis.call('ZMSCORE', q.leases, ...)) do
        lease_ends[#lease_ends + 1] = lease_end
      end
    end)
    for i, token in ipairs(group.tokens) do
      if lease_ends[i] and not seen[token] then
        seen[token] = true
        group.live[#group.live + 1] = token
        verdicts[#verdicts + 1] = ''
      else
        verdicts[#verdicts + 1] = 'lost'
        lost = lost + 1
      end
    end
  end
  return verdicts, lost
end
