-- Numbers that several parts use.

-- What one call handles, so that none blocks the server for long: items, items that it moves (parsed and
-- written again), and bytes of items. A call ends with the item that reaches the bound of bytes: at least
-- one, whatever its size. Callers go on from where it ended.
local CALL_ITEMS, CALL_MOVES, CALL_BYTES = 1000, 100, 2097152
-- The server returns the memory of a large value to the kernel at once, which costs it about as long as
-- copying it. So a call frees at most so many bytes.
local FREED_BYTES = 8388608

-- To read and write the header of an item that has counters, a history or options takes as long as to move so
-- many times its bytes of a payload.
local HEADER_WEIGHT = 16

-- Bounds of numbers in stats. Instants up to LAST_MS (in 2223) and numbers up to LAST_NUMBER are so far below
-- 2^53 that the tokens of one call differ.
local FAR_BACK_MS, FAR_AHEAD_MS, LAST_MS, LAST_NUMBER = -1e13, 6e12, 8e12, 9e15

local KEEP_MS, REFRESH_MS = 3600000, 600000
local DEFAULT_MAX_PAYLOAD, HIGHEST_MAX_PAYLOAD = 1048576, 536870912
-- Tags of the ring are below this; the scores from it on are of clients that have no turn.
local PARKED = 4503599627370496  -- 2^52
local MOST_COST, ITEM_KEY = 1000000, 128  -- of an item: what it costs at most, and the bytes of its key
local NO_KEY = ''  -- a field of keys that is no item's key
