#!lua flags=allow-oom
-- Purpose: gives back what a dead worker holds: crashed items counted and to the tail, interrupted ones
--   uncounted and to the head, in order.
-- KEYS: 1 cq:{NAME}:main (LIST); derived as in give_back
-- ARGV: 1 instance, 2 lane, 3 call number, 4 worker, 5 kind (crash or interrupt), 6 error, 7.. tokens of the
--   worker (at most 1,000) in the order of claiming
-- Replies: {"OK", "REQUEUED DELAYED FAILED UNCLAIMED LOOKED_AT"} of those that are still held, {"STALE"}.
--   LOOKED_AT: how many tokens were looked at, the last ones of an interrupted worker and the first ones of a
--   crashed one; there was no room for the others
-- Cost: O(tokens log n); for the head also reading up to 1,000 items (2 MiB) that were given back before
-- include limits numbers clock queue types counts room sizes check_text slices touch close wake call

local function release_worker()
  -- include enqueued_at stored delay envelope levels oldest enter_level tags entry_tags lengths main
  -- include expect_entry end_turns end_claims removed shape reasons put_failed place_of head free_keys settle

  local q = open(KEYS[1], {'HDEL', 'HINCRBY', 'HSET', 'LPUSH', 'LTRIM', 'PEXPIRE', 'RPUSH', 'ZADD', 'ZREM'})
  local again = kept_reply(q)
  if again then return again end
  local worker, kind = ARGV[4], ARGV[5]
  check_text(ARGV[6])
  local busy = q.base .. 'busy:' .. worker
  expect_zset(q.leases)
  expect_hash(busy)
  local policy, count, held, items, verdicts, looked_at = policy_of(q), count_of(#ARGV - 6, 0), {}, {}, {}, 0
  q.counts = {}
  for i = 1, count do
    local token = ARGV[6 + (kind == 'interrupt' and count + 1 - i or i)]
    local envelope = redis.call('HGET', busy, token)
    looked_at = i
    if envelope then
      local number = number_of(token)
      local item = parse(q, envelope, number)
      item.number, item.token = tonumber(number), token
      expect_entry(q, item)
      items[i], held[#held + 1] = item, token
      if not has_room(q, #envelope) or #held == CALL_MOVES then break end
    end
  end
  if #held == 0 then return {'OK', '0 0 0 0 ' .. whole(looked_at)} end
  local found = {}
  for i = 1, looked_at do found[#found + 1] = items[kind == 'interrupt' and looked_at + 1 - i or i] end
  items = found
  for i, item in ipairs(items) do verdicts[i] = settle(q, policy, item, kind, ARGV[6], worker) end
  place(q, policy, items, verdicts)
  end_claims(q, busy, held)
  local n = q.counts
  local text = format_text('%d %d %d %d %d', n.requeued or 0, n.delayed or 0, n.failed or 0, n.unclaimed or 0,
    looked_at)
  if kind == 'crash' then n.crashes = #items end
  close(q, n)
  keep_reply(q, text)
  return {'OK', text}
end
return release_worker()
