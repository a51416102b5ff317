-- Reads pauses: of the queue, of one client, of one key. The hash cq:{NAME}:pauses maps a part ("queue",
-- "client NAME" or "key KEY") to "AT UNTIL HAND BYTES BY REASON": since and until when (ms; NEVER_MS without
-- an end), until when by hand, by whom (so many bytes) and why. Where HAND is before UNTIL, an app has closed
-- the part from then on; where it is 0, from the beginning. While there are any, the field `pauses` of config
-- is "NEXT_END CHANGED_AT CLIENTS KEY_END": when the first one ends, when they changed, how many clients are
-- paused, and when the first pause of a key ends (0: no key is paused). A pause that is over holds nothing
-- back; reap removes it (lib/pause.lua). A claim that meets an item whose key is paused holds it, as if the
-- key were busy (lib/hold.lua).
local NEVER_MS = LAST_MS

-- When a pause ends, whether it is by an app now, and since when that is, from its text; nil if it is over.
local function end_of(q, text)
  local since, ends, hand = string.match(text or '', '^(%d+) (%d+) (%d+) ')
  ends = setting(ends, 0, 0, NEVER_MS)
  local is_by_app = setting(hand, 0, 0, NEVER_MS) <= q.now
  if ends > q.now then return ends, is_by_app, hand == '0' and since or hand end
end

-- The same for the pause of a part; nil if it is not paused.
local function paused_until(q, part) return end_of(q, redis.call('HGET', q.base .. 'pauses', part)) end

-- From the field of config: when the next pause ends, how many clients are paused, and when the first pause
-- of a key ends. nil, 0, 0 without a pause.
local function next_pause_end(text)
  local next_end, clients, key_end = string.match(text or '', '^(%d+) %d+ (%d+) (%d+)$')
  if not next_end or #next_end > 16 or #clients > 3 or #key_end > 16 then return nil, 0, 0 end
  return tonumber(next_end), tonumber(clients), tonumber(key_end)
end
