-- Ends claims that are done, and counts that where bounds on items in progress are counted.
local function free_of_groups(q, busy, tokens)
  -- include free_clients
  check_writes(q.base, {'ZADD'})
  free_clients(q, busy, tokens)
end

-- Ends the claims of the groups that are held. Returns 'done' or 'lost' for each, and how many are lost. All
-- claims are removed at once, since to remove one that is not held changes nothing. Where a claim has no
-- lease they are removed one by one: the items in busy show which claims were held.
local function end_held(q, groups)
  local verdicts, lost = {}, 0
  if q.limits and string.find(q.limits, ' busy ', 1, true) then
    for _, group in ipairs(groups) do free_of_groups(q, group.busy, group.tokens) end
  end
  for _, group in ipairs(groups) do
    local busy, tokens, before = group.busy, group.tokens, #verdicts
    local are_leased = #tokens > 0 and redis.call('ZREM', q.leases, unpack(tokens)) == #tokens
    if are_leased then redis.call('HDEL', busy, unpack(tokens)) end
    local ended = are_leased and tokens or {}
    for i = 1, #tokens do
      local verdict = 'done'
      if not are_leased then
        if redis.call('HDEL', busy, tokens[i]) == 0 then verdict, lost = 'lost', lost + 1
        else ended[#ended + 1] = tokens[i] end
      end
      verdicts[before + i] = verdict
    end
    if q.turns then end_turns(q, ended) end
    if verdicts[before + 1] == 'done' then note_longest(q, tokens[1]) end
  end
  -- a call that claims too has seen how many more may start (lib/take)
  local is_held_back = q.limits and string.byte(q.limits) == 49
  if is_held_back and not q.first and lost < #verdicts then leave_wake_token(q) end
  return verdicts, lost
end
