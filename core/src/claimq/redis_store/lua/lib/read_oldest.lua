-- Reads the oldest items of a list.

-- The cost to find an item of a list, as bytes that take as long to read. The server goes from the nearer end
-- over nodes of 8 KiB.
local NODE_BYTES, STEP_BYTES, FAR_BYTES = 8192, 12, 32768
local function bytes_to_find(depth, size) return depth * math.min(size / NODE_BYTES, 1) * STEP_BYTES end

-- The same from the right end of a list, where its oldest items are, after the first skip of them. Far inside
-- the list the largest size is trusted for all of them.
local function read_oldest(q, list, skip, want, largest)
  local length = skip > 0 and redis.call('LLEN', list) or 0
  local is_far = largest and bytes_to_find(math.min(skip, length - skip), largest) >= FAR_BYTES
  return read_within(q, want, function(read, count)
    local first = skip + read
    local page = redis.call('LRANGE', list, whole(-(first + count)), whole(-(first + 1)))  -- the newest first
    local size = #page
    for i = 1, math.floor(size / 2) do page[i], page[size + 1 - i] = page[size + 1 - i], page[i] end
    return page, length > 0 and page[1] and bytes_to_find(math.min(first, length - first), #page[1]) or 0
  end, largest, is_far and want or nil)
end
