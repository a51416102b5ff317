-- A user without the right to one of these would be stopped in the middle of a transition, between taking an item from one place and putting
-- it into the next. So the first claim of a lane asks for all of them, and is refused as a whole.
local WRITES = {{'RPOP'}, {'RPUSH', 'x'}, {'LPUSH', 'x'}, {'LTRIM', '0', '0'}, {'HSET', 'x', 'x'}, {'HDEL', 'x'}, {'HINCRBY', 'x', '1'},
                {'ZADD', '1', 'x'}, {'ZREM', 'x'}, {'PEXPIRE', '1'}, {'DEL'}}

-- The first command that the caller may not run on this queue's keys, or nil.
local function missing_right(q)
  for _, words in ipairs(WRITES) do
    if not redis.acl_check_cmd(words[1], q.main, unpack(words, 2)) then return words[1] end
  end
end
