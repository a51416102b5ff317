-- A client's share as the hash `shares` has it (lib/shares.lua): base, tag, count, mean, weight and
-- when it is drained, as binary numbers, since each claim and each end reads and writes those of its clients.
local SHARE, SHARE_BYTES = '<i8i8i8i8di8', 48

-- Returns the six numbers; nil for a text that is no share, which another client may have written.
local function share_numbers(text)
  if not text or #text ~= SHARE_BYTES then return nil end
  local base, tag, count, mean, weight, drained_at = struct.unpack(SHARE, text)
  if base > -PARKED and base < PARKED and tag >= 0 and tag < PARKED and count >= 0 and count < LAST_NUMBER
    and mean >= 0 and mean < PARKED and weight >= 0.001 and weight <= 1000 and drained_at >= 0
    and drained_at < LAST_MS then
    return base, tag, count, mean, weight, drained_at
  end
end
