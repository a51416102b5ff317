-- How long items take: the longest time from a claim to done or fail, until one ends an hour later, or ten
-- times as long as it took (100 hours at most). It separates a queue whose items are long from one that makes
-- no progress. A token's number is the instant of its claim in microseconds, unless the clock went back. Of
-- claims that end together the first one counts. The field of stats has "TOOK AT", both in ms: AT is when
-- that claim ended.
local LATELY_MS, LATEST_MS = 3600000, 360000000

local function note_longest(q, token)
  local number = tonumber(string.match(token, '^.*/(%d+)'))
  local took = number and q.now - math.floor(number / 1000)
  if not took or took < 0 or number == 0 then return end
  local longest, ended_at = string.match(q.stored_longest or '', '^(%d+) (%d+)$')
  longest, ended_at = tonumber(longest) or 0, tonumber(ended_at) or 0
  if took > longest or q.now - ended_at > math.min(math.max(LATELY_MS, 10 * longest), LATEST_MS) then
    q.longest = took
  end
end
