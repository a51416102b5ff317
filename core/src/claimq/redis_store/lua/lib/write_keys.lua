-- Writes the entries that the call has changed. The tokens of the items that it claims begin and end with
-- these texts.
local function write_keys(q, before, behind)
  -- include exclusive

  -- Removes entries whose claims have ended, among so many.
  local function sweep_keys(q, count)
    local at, gone = string.match(redis.call('HGET', q.stats, 'exclusive_cursor') or '', '^%d+$') or '0', {}
    local page = redis.pcall('HSCAN', q.base .. 'exclusive', at, 'COUNT', whole(count))
    -- the cursor is invalid: another client has changed it; begin again
    if page.err then page = {'0', {}} end
    for i = 1, #page[2], 2 do
      local key, entry = page[2][i], read_key(q, page[2][i + 1])
      if key ~= NO_KEY and not entry.is_busy and entry.due <= q.now then gone[#gone + 1] = key end
    end
    sliced(gone, function(...) redis.call('HDEL', q.base .. 'exclusive', ...) end)
    if page[1] ~= at then redis.call('HSET', q.stats, 'exclusive_cursor', page[1]) end
  end

  local words, taken = {}, 0
  for key, entry in pairs(q.keys) do
    local token = entry.token
    if entry.position then
      token, taken = before .. whole(q.first + entry.position - 1) .. behind, taken + 1
    end
    words[#words + 1], words[#words + 2] = key, token .. ' ' .. whole(entry.due)
  end
  sliced(words, function(...) redis.call('HSET', q.base .. 'exclusive', ...) end)
  if taken >= 16 then sweep_keys(q, 2 * taken)
  elseif taken > 0 and string.find(behind, '[A-D]$') then
    -- one nonce of sixteen
    sweep_keys(q, 32 * taken)
  end
end
