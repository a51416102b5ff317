-- Puts items at the head of their list: given back, or held for their keys until now.

-- A call reads at most so many items that were given back before it, of all clients together.
local MERGE_ITEMS, MERGE_BYTES = 1000, CALL_BYTES

-- Reads the items at the head of a line's list that were given back before and come before one of its own.
local function given_back_before(q, line)
  local before, items = {}, line.items
  table.sort(items, function(a, b) return a.meta.place < b.meta.place end)
  q.merge_items, q.merge_bytes = q.merge_items or MERGE_ITEMS, q.merge_bytes or MERGE_BYTES
  while q.merge_items > 0 and q.merge_bytes > 0 do
    local envelope = redis.call('LINDEX', line.list, -(#before + 1))
    if not envelope then break end
    local its_place = place_of(envelope)
    q.merge_items, q.merge_bytes = q.merge_items - 1, q.merge_bytes - #envelope
    if not its_place or its_place > items[#items].meta.place then break end
    before[#before + 1] = {place = its_place, envelope = envelope}
  end
  return before
end

-- Puts a line's items back at the head, merged by their places with those that were given back before:
-- whichever call comes first, a client's items stand in the order of their first claims since they entered
-- the tail (that of arrival, but for items that claim_item took). What comes after more items than a call
-- reads stands right behind those that it read (docs/decisions/order-of-items.md).
local function head(q, line)
  local client, items, before, merged, next_one = line.client, line.items, line.before, {}, 1
  for _, item in ipairs(items) do
    while before[next_one] and before[next_one].place < item.meta.place do
      merged[#merged + 1] = before[next_one].envelope
      next_one = next_one + 1
    end
    merged[#merged + 1] = item.stored or format(item)
    note_size(q, #merged[#merged])
    if q.weighs then weigh(q, MAIN, {merged[#merged]}, 1) end
  end
  for i = next_one, #before do merged[#merged + 1] = before[i].envelope end
  local list, newest_first = enter_level(q, client, line.level) or line.list, {}
  if #before > 0 then redis.call('LTRIM', list, 0, -(#before + 1)) end
  for i = #merged, 1, -1 do newest_first[#newest_first + 1] = merged[i] end
  sliced(newest_first, function(...) redis.call('RPUSH', list, ...) end)
  if client ~= '-' then
    if line.is_new then
      local first = tonumber(redis.call('ZRANGE', q.clients, '0', '0', 'WITHSCORES')[2])
      local has_turns = first and first > -LAST_NUMBER and first < PARKED
      local entry = has_turns and {whole(first - 1), client} or entry_tags(q, {client})
      redis.call('ZADD', q.clients, unpack(entry))
    end
    redis.call('ZADD', q.heads, enqueued_at(oldest_of(q, client)) or whole(q.now), client)
  end
  grow(q, client, #items)
end
