-- Puts items into failed.

-- Returns the first command that the user may not run, of those that read between writes.
local function refused_read(base)
  if not redis.acl_check_cmd('HEXISTS', base, '0') then return 'HEXISTS' end
  if not redis.acl_check_cmd('HGET', base, '0') then return 'HGET' end
  if not redis.acl_check_cmd('HLEN', base) then return 'HLEN' end
  if not redis.acl_check_cmd('ZCARD', base) then return 'ZCARD' end
  if not redis.acl_check_cmd('ZRANGE', base, '0', '0') then return 'ZRANGE' end
  return nil
end

-- Where in failed the item goes: under its id, or beside other failed items that have the same id of a
-- producer's own. Past ten of them the name is made of this call's number, so that it is found at once.
local function failed_field(q, item)
  local field, again = item.id, 1
  while redis.call('HEXISTS', q.base .. 'failed:items', field) == 1 do
    again = again + 1
    if again > 10 then
      q.same = (q.same or 0) + 1
      return item.id .. '#' .. whole(q.seq) .. '.' .. whole(q.same)
    end
    field = item.id .. '#' .. again
  end
  return field
end

-- A call removes at most so many items because of max_items, and logs so many bytes of them; of the others
-- only the id is logged.
local OVER_ITEMS, OVER_BYTES = 125, 4194304

local function remove_over(q, name)
  local stored = q.base .. 'failed:items'
  local envelope = redis.call('HGET', stored, name) or ''
  q.over_items, q.over_bytes = (q.over_items or OVER_ITEMS) - 1, (q.over_bytes or OVER_BYTES) - #envelope
  local is_read = envelope ~= '' and q.over_bytes >= 0
  if is_read then q.over_bytes = q.over_bytes - header_bytes(envelope) end
  note_removed(q, is_read and parse(q, envelope, '0')
    or {id = name, at = '0', client = '-', meta = {}, payload = '', size = #envelope}, 'max_items')
  count_reason(q, reason_in(envelope), -1)
  redis.call('ZREM', q.base .. 'failed', name)
  redis.call('HDEL', stored, name)
  q.counts.failed_removed = (q.counts.failed_removed or 0) + 1
end

local function put_failed(q, policy, item)
  local history = item.meta.history
  enter_reason(q, item, shape_of(q, item.meta.error, history and history[#history].worker or ''))
  local field, envelope = failed_field(q, item), format(item)
  note_size(q, #envelope)
  redis.call('HSET', q.base .. 'failed:items', field, envelope)
  redis.call('ZADD', q.base .. 'failed', whole(q.now), field)
  local over = policy.max_failed and redis.call('ZCARD', q.base .. 'failed') - math.floor(policy.max_failed)
    or 0
  -- more than a call puts into failed, in number and in bytes, so that failed shrinks
  over = math.min(over, 10, q.over_items or OVER_ITEMS)
  if over > 0 and (q.over_bytes or 0) > -FREED_BYTES then
    for _, oldest in ipairs(redis.call('ZRANGE', q.base .. 'failed', 0, whole(over - 1))) do
      remove_over(q, oldest)
    end
  end
end
