#!lua flags=allow-oom
-- Purpose: sets fields of the queue's policy. It may exceed the server's memory limit: a pause or a smaller
--   policy is what helps a full server.
-- KEYS: 1 cq:{NAME}:main; derived: stats, config (HASH)
-- ARGV: 1 field, 2 its value, and so on
-- Replies: {"OK"}; {"ALONE", count, age}: the policy would have the field `count` without the field `age`
--   that it needs; nothing was set
-- Cost: O(fields)
-- include limits queue counts

local q = open(KEYS[1], {'HSET'})
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
redis.call('HSET', config, unpack(ARGV))
return {'OK'}
