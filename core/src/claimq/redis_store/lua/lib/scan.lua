-- Scans a hash from a cursor, for about `count` fields. Returns the cursor where it ended ('0' at the end).
-- It asks for fields without values, of which one step of Valkey 9 returns seven or more. Redis before 7.4
-- and Valkey 7 return values too. There the scan ends when there is no more room, or after `count` steps: a
-- step may find no field, since a hash that has lost most of its fields is not always made smaller.
local function scan(q, key, cursor, count, see)
  local seen, steps, step = 0, 1, 1
  local page = redis.pcall('HSCAN', key, cursor, 'COUNT', whole(count), 'NOVALUES')
  if page.err then page, step = redis.call('HSCAN', key, cursor, 'COUNT', 1), 2 end
  while true do
    cursor = page[1]
    for i = 1, #page[2], step do
      see(page[2][i])
      seen = seen + 1
      if step == 2 then has_room(q, #page[2][i + 1]) end
    end
    if step == 1 or cursor == '0' or seen >= count or steps >= count or not has_room(q, 0) then
      return cursor
    end
    page, steps = redis.call('HSCAN', key, cursor, 'COUNT', 1), steps + 1
  end
end
