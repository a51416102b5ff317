#!lua flags=allow-oom
-- Purpose: records the owner of a queue, once. A queue with an owner gets another one only if the caller
--   names that owner, or if both records name the same place: an object that was made again at its old place
--   keeps its queue.
-- KEYS: 1 cq:{NAME}:main (LIST); derived: config (HASH)
-- ARGV: 1 the caller, "CLUSTER NAMESPACE NAME UID"; 2 the owner to take over from, as this script replies it,
--   or ""
-- Replies: {"OWNED", owner} if the caller is the owner now, {"OTHER", owner} if another is, and nothing has
--   changed. The owner is "CLUSTER NAMESPACE NAME UID NUMBER"; the number grows with each change of owner, so
--   a permission to take over holds once.
-- Cost: O(1)
-- include limits numbers clock queue

local q = open(KEYS[1], {'HSET'})
local known = redis.call('HGET', q.config, 'owner')
local number = 0
if known then
  local owner, place, count = string.match(known, '^((%S+ %S+ %S+) %S+) (%d+)$')
  if owner == ARGV[1] then return {'OWNED', known} end
  local is_same_place = place and string.sub(ARGV[1], 1, #place + 1) == place .. ' '
  if not is_same_place and ARGV[2] ~= known then return {'OTHER', known} end
  number = tonumber(count) or 0
end
local owner = ARGV[1] .. ' ' .. whole(number + 1)
redis.call('HSET', q.config, 'owner', owner)
return {'OWNED', owner}
