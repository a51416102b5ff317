-- Presence: a process that consumes keeps a connection open that is subscribed to a channel of its own,
-- cq:{NAME}:present:INSTANCE. The kernel closes it when the process dies, however that happens, and leaves it
-- open while the process is stopped or slow. The nonce of its claims begins with MARK characters of INSTANCE.
-- present (ZSET) has "INSTANCE WORKER" -> when to look for the subscription next (ms), half a millisecond
-- more if the last look found none. A process that is absent at two looks, ABSENT_MS apart, is gone.
-- (docs/decisions/ends-of-processes.md) The channel is not a sharded one: a node of a cluster ends the
-- subscriptions of those when their slot moves away, as if the processes had died.
-- (docs/decisions/ends-of-processes.md)
local LOOK_MS, ABSENT_MS, MARK = 1000, 3000, 3

local function channel_of(q, instance) return q.base .. 'present:' .. instance end
