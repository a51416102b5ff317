"""What a pass does on a queue's server, on a real one."""

from collections.abc import Callable

import claimq
from claimq import FailedPolicy, Policy
from claimq.model import State
from claimq_operator.upkeep import Upkeep
from testkit.server import Server

POLICY = Policy(requeue_limit=0, failed=FailedPolicy(requeue_after=0.001, max_items=1))


async def test_a_full_server_is_kept_in_order_and_looked_at_so_that_workers_can_come(
    start_server: Callable[..., Server],
) -> None:
    full = start_server("valkey", {"maxmemory-policy": "noeviction"})
    async with claimq.connect(full.url) as store:
        queue = store.queue("q", worker="w")
        await queue.enqueue_many(["a", "b", "c"])
        await queue.fail(await queue.claim(2, wait=0), "broken", permanent=True)
        full.call("CONFIG", "SET", "maxmemory", "1")
        # As an operator does that has just started, or has just seen a fault: nothing is written yet.
        kept = await Upkeep().run(queue, POLICY, (), now=100.0, asks_workers=True)
        assert await queue.policy() == POLICY
    assert kept.snapshot.lengths[State.MAIN] == 1
    # What has to be kept no longer is removed; what should be sent back waits in failed for room.
    assert kept.snapshot.lengths[State.FAILED] == 1
