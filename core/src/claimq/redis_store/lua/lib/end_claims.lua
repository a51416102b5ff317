-- Ends claims, and counts that where bounds on items in progress are counted.
local function free_of_claims(q, busy, tokens)
  -- include free_clients
  free_clients(q, busy, tokens)
end

-- Removes claims from leases and from the busy hash of their worker.
local function end_claims(q, busy, tokens)
  if q.limits and string.find(q.limits, ' busy ', 1, true) then free_of_claims(q, busy, tokens) end
  sliced(tokens, function(...)
    redis.call('ZREM', q.leases, ...)
    redis.call('HDEL', busy, ...)
  end)
  if q.turns then end_turns(q, tokens) end
  if q.limits and string.byte(q.limits) == 49 and #tokens > 0 then leave_wake_token(q) end
end

-- The number of a token, as text; it orders the claims of a queue. The pattern begins at the start of the
-- text: else a long one takes minutes.
local function number_of(token)
  return string.match(token, '^.*/(%d+)') or '0'
end
