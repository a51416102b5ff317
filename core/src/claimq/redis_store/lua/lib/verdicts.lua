-- The verdicts of a call that ends claims.

-- Cuts the groups where their items reach FREED_BYTES. Returns how many tokens are left for later calls.
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

-- A call that ends claims frees their items, so it ends with the item that reaches FREED_BYTES. Sizes are
-- asked for only where the largest item of the queue could make them matter.
local function leave_for_later(q, groups)
  local count = 0
  for i = 1, #groups do count = count + #groups[i].tokens end
  return count * q.largest > FREED_BYTES and cut_groups(q, groups) or 0
end

-- The verdicts of a call as text, with "later" for those that were left.
local function verdict_text(verdicts, left)
  local text = table.concat(verdicts, ' ')
  return left == 0 and text or text .. string.rep(' later', left)
end
