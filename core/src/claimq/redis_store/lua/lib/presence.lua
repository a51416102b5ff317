-- Looks for processes that are gone.

-- The most processes that one sweep looks at, and the most claims of workers whose tokens it reads. Of a
-- worker with more claims the leases decide.
local LOOKS, LOOK_TOKENS = 100, 5000

-- The claims of one process among those of its worker, in the order of claiming; nil if another sweep has to
-- read them.
local function claims_of(q, found, instance, worker)
  local busy, mine, mark = q.base .. 'busy:' .. worker, {}, string.sub(instance, 1, MARK)
  local held = redis.call('HLEN', busy)
  if held > LOOK_TOKENS then return {} end
  found.read = (found.read or 0) + held
  if found.read > LOOK_TOKENS then return nil end
  for _, token in ipairs(redis.call('HKEYS', busy)) do
    local nonce = string.match(token, '/%d+%.([^/]*)$')
    if nonce and string.sub(nonce, 1, MARK) == mark then mine[#mine + 1] = token end
  end
  table.sort(mine, function(a, b) return tonumber(number_of(a)) < tonumber(number_of(b)) end)
  return mine
end

-- Looks for the processes whose turn it is. Returns at (member -> when to look next), away (members to
-- forget), and tokens: up to `want` claims of processes that are gone. A process whose record is from before
-- the server was replaced, or that is away in the time of a lease after that, is forgotten: its leases
-- decide. Reads only.
local function look(q, policy, want)
  local found = {at = {}, away = {}, tokens = {}, more = false}
  local page = may_look(q) and redis.call('ZRANGEBYSCORE', q.base .. 'present', '-inf', whole(q.now),
    'WITHSCORES', 'LIMIT', 0, LOOKS) or {}
  if #page == 0 then return found end
  local since, channels = policy.since, {}
  for i = 1, #page, 2 do channels[#channels + 1] = channel_of(q, string.match(page[i], '^%S*')) end
  local seen = redis.call('PUBSUB', 'NUMSUB', unpack(channels))
  for i = 1, #page, 2 do
    local member, at = page[i], tonumber(page[i + 1])
    local was_absent = at % 1 > 0
    local confirmed_at = at - (was_absent and ABSENT_MS or LOOK_MS)
    if seen[i + 1] > 0 then found.at[member] = q.now + LOOK_MS
    elseif confirmed_at < since or (since > 0 and q.now <= since + policy.expiry + 1000) then
      found.away[#found.away + 1] = member
    elseif not was_absent then found.at[member] = q.now + ABSENT_MS + 0.5
    else
      local instance, worker = string.match(member, '^(%S+) (.*)$')
      local mine = {}  -- a member that no process has written is forgotten
      if instance then mine = claims_of(q, found, instance, worker) end
      for n = 1, math.min(#(mine or {}), want - #found.tokens) do
        found.tokens[#found.tokens + 1] = mine[n]
      end
      if not mine or (#found.tokens == want and #mine > 0) then found.more = true
      else found.away[#found.away + 1] = member end
    end
  end
  return found
end

-- Writes what look() found.
local function note_looks(q, found)
  for member, at in pairs(found.at) do redis.call('ZADD', q.base .. 'present', fraction(at), member) end
  if #found.away > 0 then redis.call('ZREM', q.base .. 'present', unpack(found.away)) end
end
