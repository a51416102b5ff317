#!lua flags=allow-oom
-- Purpose: sets fields of the queue's policy. It may exceed the server's memory limit: a smaller policy is
--   what helps a full server.
-- KEYS: 1 cq:{NAME}:main (LIST); derived: main:CLIENT, their levels (LIST), heads, delayed (ZSET), bytes,
--   stats, config (HASH)
-- ARGV: 1 field, 2 its value, and so on. `limits` leaves the temporary limits, unless there is limits_before:
--   then the field must have this value, and gets the new one as it is
-- Replies: {"OK"}; {"CHANGED"}: it has another value; {"ALONE", count, age}: the policy would have the field
--   `count` without the field `age` that it needs; {"MANY", limits}: it would have more than 8 limits with
--   the temporary ones; with these nothing was set
-- Cost: O(fields); the first bound on the bytes that wait reads the sample of lib/set_bound.lua
-- include limits numbers clock queue counts

local q = open(KEYS[1], {'DEL', 'HDEL', 'HSET'})
if #ARGV % 2 == 1 then error({err = 'ERR give fields and values'}) end
count_of(#ARGV, 2)
local config, given = q.config, {}
for i = 1, #ARGV, 2 do given[ARGV[i]] = ARGV[i + 1] end
local function value(field) return given[field] or redis.call('HGET', config, field) or '' end
-- A fail count alone does nothing: refused in the call that would leave it alone, whatever other calls set
-- before.
for count, age in pairs({failed_requeue_max_given_up_count = 'failed_requeue_min_age_ms',
  failed_remove_min_given_up_count = 'failed_remove_min_age_ms'}) do
  local is_touched = given[count] or given[age] or given.failed_remove_match
  if is_touched and value(count) ~= '' and value(age) == '' then
    if count ~= 'failed_remove_min_given_up_count' or value('failed_remove_match') ~= 'either' then
      return {'ALONE', count, age}
    end
  end
end
if given.limits then
  local limits = redis.call('HGET', config, 'limits') or ''
  if not given.limits_before then
    local temporary, names, count = string.match(limits, '|.*$') or '', {}, 0
    local function add(name) names[name], count = true, count + (names[name] and 0 or 1) end
    for name in string.gmatch(given.limits, '([%w-]+) [^;]*') do add(name) end
    for ends, name, kind in string.gmatch(temporary, '(%d+) %S+ %S+ ([%w-]+) (%a+)') do
      if tonumber(ends) > q.now and kind ~= 'off' then add(name) end
    end
    if count > 8 then return {'MANY', count} end
    given.limits = given.limits .. temporary
  elseif given.limits_before ~= limits then return {'CHANGED'} end
  given.limits_before = nil
end
if given.fairness_by == 'count' then
  redis.call('DEL', q.base .. 'shares', q.base .. 'turns')
  redis.call('HDEL', q.stats, 'turns')
end
if given.fairness_by == 'count' or tonumber(given.fairness_reserve or '') == 0 then
  redis.call('DEL', q.base .. 'slots')
  redis.call('HDEL', q.stats, 'reserve')
end
local words, is_bound = {}, false
for field in pairs(given) do is_bound = is_bound or string.find(field, '^max_waiting') end
if is_bound then
  -- include levels set_bound
  set_bound(q, bound_for(q, value))
end
for field, new_value in pairs(given) do words[#words + 1], words[#words + 2] = field, new_value end
redis.call('HSET', config, unpack(words))
return {'OK'}
