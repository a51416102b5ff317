#!lua
-- Purpose: ends claims and, in the same step, enqueues the items that follow from them; what follows from a
--   lost claim is not enqueued.
-- KEYS: 1 cq:{NAME}:main of the claims; then one of each queue that gets items (at most 100, which may be the
--   first again). Derived keys as in done and enqueue
-- ARGV: 1 instance, 2 lane, 3 call number, 4.. claims; then groups of new items whose GUARD is the position
--   of their claim, from 1
-- Replies: as done; {"TOO_LARGE", position, size, limit}, {"COSTLY", ...} of lib/enqueue.lua; errors: OOM,
--   WRONGTYPE. Nothing is written but with OK.
-- Cost: O(claims log busy + items); at most 8 MiB of claimed items, or the item that reaches that, and 250
--   groups of followers, or all of one claim
-- include limits numbers clock queue types counts room sizes slices touch close wake call claims

local function done_enqueue()
  -- include durability levels tags entry_tags lengths main find_held end_turns end_claims longest verdicts
  -- include free_keys enqueue

  local FOLLOWER_GROUPS = 250

  -- The position of the first claim whose followers are more groups than a call adds, with those of the
  -- claims before it. One claim is never divided.
  local function after_groups(groups)
    for i = FOLLOWER_GROUPS + 1, #groups do
      if groups[i].guard > groups[i - 1].guard then return groups[i].guard end
    end
  end

  -- Keeps the first `count` tokens of all groups; returns the number of the others, which are left for later
  -- calls.
  local function keep_first(groups, count)
    local left = 0
    for _, group in ipairs(groups) do
      local size = #group.tokens
      local kept = math.min(size, count)
      group.tokens, count, left = {unpack(group.tokens, 1, kept)}, count - kept, left + size - kept
    end
    return left
  end

  local WRITES = {'HDEL', 'HINCRBY', 'HSET', 'LPUSH', 'PEXPIRE', 'ZADD', 'ZREM'}
  local q = open(KEYS[1], WRITES)
  local again = kept_reply(q)
  if again then return again end
  local queues = open_others(q, WRITES)
  local claims, at = read_claims(q, 4)
  local groups = read_groups(queues, at)
  local left = leave_for_later(q, claims)
  local first_left = after_groups(groups)
  if first_left then left = left + keep_first(claims, first_left - 1) end
  local verdicts, lost = find_held(q, claims)
  if lost == #verdicts then return {'OK', verdict_text(verdicts, left)} end
  local followers = {}
  for _, group in ipairs(groups) do
    if verdicts[group.guard] == '' then followers[#followers + 1] = group end
  end
  local waits = durability_of_done(q)
  local refusal = check_groups(followers, {})
  if refusal then return refusal end
  if q.has_keys and free_keys_of(q, claims) > 0 then leave_wake_token(q) end
  for _, group in ipairs(claims) do
    if group.live[1] then note_longest(q, group.live[1]) end
    end_claims(q, group.busy, group.live)
  end
  for i, verdict in ipairs(verdicts) do if verdict == '' then verdicts[i] = 'done' end end
  for _, group in ipairs(followers) do write_group(group) end
  local counts = {done = #verdicts - lost, lost = lost}
  for i, queue in ipairs(queues) do
    if queue.entering then enter_ring(queue) end
    if queue.enqueued then leave_wake_token(queue) end
    if queue == q and i == 1 then
      counts.enqueued = q.enqueued or 0
      close(q, counts)
    elseif queue ~= q and queue.enqueued then
      close(queue, {enqueued = queue.enqueued})
    end
  end
  local text = verdict_text(verdicts, left) .. strictest({{durability = waits}, unpack(queues)})
  keep_reply(q, text)
  return {'OK', text}
end
return done_enqueue()
