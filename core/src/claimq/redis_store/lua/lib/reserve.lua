-- Slots that are kept free for clients that use little (docs/decisions/fairness.md). Reads only.
--
-- The field `reserve` of stats has "SLOTS COUNTED_AT RATE QUIET_AT": how many slots the workers have, when
-- they were counted (ms), how many of them a quiet client uses at most, and when one had work last (ms; below
-- 0: when a worker claimed that does not name its slots). A share (lib/shares.lua) has DRAINED_AT: when RATE
-- slots would have done what has ended (ms).
local QUIET_MS = 600000
local BURST = 2  -- items beyond its rate that a quiet client may start; the first one only while it is new
local SHORT_MS = 100  -- clients with shorter items free their slots soon

local function read_reserve(q)
  local slots, counted_at, rate, quiet_at = string.match(q.stored_reserve or '',
    '^(%d+) (%d+) ([%d.]+) (%-?%d+)$')
  return {slots = number_in(slots, 0, LAST_NUMBER), counted_at = number_in(counted_at, 0, q.now),
    rate = number_in(rate, 0, LAST_NUMBER), quiet_at = number_in(quiet_at, -LAST_MS, q.now)}
end

-- How many slots a policy keeps free, if a quiet client had work lately.
local function kept_slots(slots, share) return math.floor(slots * share + 0.001) end
local function is_kept(q, quiet_at) return quiet_at > 0 and q.now - quiet_at <= QUIET_MS end

-- How many items more a client may start as a quiet one; count: its items in progress, mean: how long these
-- take (ms).
local function quiet_room(q, rate, count, mean, drained_at, is_new)
  local late = math.max(0, drained_at - q.now) * rate / mean
  return math.max(0, math.ceil((is_new and 1 or BURST) - count - late))
end
