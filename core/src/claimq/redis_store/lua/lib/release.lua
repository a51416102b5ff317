-- Puts the first held item of each of these keys at the head of its client's list, in its place. An item that
-- is put there too early is held again when its turn comes, so a release never does harm. What is beyond
-- FREED_BYTES, or behind more items than a call reads, is left to the next release or repair: until then
-- cq:{NAME}:held has " KEY". Returns how many it put, and whether the next repair may put more at once.
local LEFT_KEYS = 100  -- so many keys of earlier releases in one call

local function release(q, keys)
  -- include types room sizes slices enqueued_at stored delay levels oldest enter_level tags entry_tags
  -- include lengths main client_of weigh_out leave_delayed envelope place_of head
  local held, lines, of_list, left = q.base .. 'held', {}, {}, {}

  -- The first held item of a key, or nil behind a gate; entries without an item end.
  local function next_item(key)
    local ended = {}
    local entry, is_gate = first_held(q, key, ended)
    if #ended > 0 then redis.call('ZREM', held, unpack(ended)) end
    while entry and not is_gate do
      local place = string.sub(entry, #key + 2)
      local envelope = redis.call('ZRANGE', q.delayed, place, place, 'BYSCORE')[1]
      if envelope then
        return {meta = {place = tonumber(place)}, stored = envelope, entry = entry, key = key}
      end
      redis.call('ZREM', held, entry)
      entry, is_gate = first_held(q, key)
    end
  end

  local function add_to_line(item)
    local client = client_of(item.stored)
    local level = q.has_levels and string.match(item.stored, '^cq1[^\n]*"priority":"(%a+)"') or nil
    local list = list_of(q, client, level)
    if not of_list[list] then
      of_list[list] = {client = client, level = level, list = list, items = {}}
      lines[#lines + 1] = of_list[list]
    end
    table.insert(of_list[list].items, item)
  end

  local function put_at_head(line)
    redis.call('ZCARD', q.clients)
    redis.call('ZCARD', q.heads)
    if q.lengths then q.lengths[line.client] = nil end  -- claims do not keep it
    line.is_new = length_of(q, line.client) == 0
    line.before = given_back_before(q, line)
    if q.merge_items <= 0 or q.merge_bytes <= 0 then  -- an earlier one of its key may stand behind these
      local last, near = line.before[#line.before], {}
      for _, item in ipairs(line.items) do
        if not last or item.meta.place < last.place then near[#near + 1] = item
        else left[#left + 1] = ' ' .. item.key end
      end
      line.items = near
      if #near == 0 then return end
    end
    for _, item in ipairs(line.items) do
      redis.call('ZREM', q.delayed, item.stored)
      redis.call('ZREM', held, item.entry)
      leave_delayed(q, line.client, item.stored)
    end
    head(q, line)
  end

  local count, before = redis.call('ZLEXCOUNT', held, '[ ', '(!'), {}
  if count > 0 then
    before = redis.call('ZRANGE', held, '[ ', '(!', 'BYLEX', 'LIMIT',
      whole(count > LEFT_KEYS and q.seq % (count - LEFT_KEYS + 1) or 0), whole(LEFT_KEYS))
  end
  local moved, bytes, merged, seen, all = 0, 0, 0, {}, {unpack(keys)}
  for _, entry in ipairs(before) do all[#all + 1] = string.sub(entry, 2) end
  if #before > 0 then redis.call('ZREM', held, unpack(before)) end
  for _, key in ipairs(all) do
    local is_left = bytes >= FREED_BYTES
    local item = not seen[key] and not is_left and next_item(key)
    if item then
      bytes = bytes + #item.stored
      add_to_line(item)
    elseif is_left then left[#left + 1] = ' ' .. key end
    seen[key] = true
  end
  for _, line in ipairs(lines) do
    q.merge_items, q.merge_bytes = nil, nil
    if merged >= FREED_BYTES then
      for _, item in ipairs(line.items) do left[#left + 1] = ' ' .. item.key end
    elseif pcall(put_at_head, line) then  -- a list of another type leaves its items held
      moved, merged = moved + #line.items, merged + CALL_BYTES - q.merge_bytes
    end
  end
  for _, entry in ipairs(left) do redis.call('ZADD', held, '0', entry) end
  return moved, moved > 0 and (#left > 0 or count > #before)
end
