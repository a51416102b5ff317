#!lua flags=no-writes
-- Purpose: whether this user may add a name to the list of queues. A refusal leaves no entry in the ACL log.
-- KEYS: cq:{NAME}:main of a queue, which is not read: the list may be in another slot
-- ARGV: 1 key of the list (ZSET), 2 name
-- Replies: {"OK", 1 or 0}
-- Cost: O(1)
return {'OK', redis.acl_check_cmd('ZADD', ARGV[1], '0', ARGV[2]) and 1 or 0}
