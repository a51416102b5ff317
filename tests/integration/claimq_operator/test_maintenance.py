"""What a pass does on a queue's server, on a real one."""

from collections.abc import Callable
from dataclasses import replace

import claimq
from claimq import FailedPolicy, Policy
from claimq.model import State
from claimq.policy_changes import PolicyFields
from claimq_operator.redis.maintenance import POLICY_SECONDS, Maintenance
from testkit.server import Server

POLICY = PolicyFields(requeue_limit=0, failed=FailedPolicy(requeue_min_age=0.001, max_items=1))


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
        kept = await Maintenance().run(queue, POLICY, (), now=100.0, asks_workers=True)
        assert await queue.policy() == Policy(**POLICY)
    assert kept.snapshot.lengths[State.MAIN] == 1
    # What has to be kept no longer is removed; what should be sent back waits in failed for room.
    assert kept.snapshot.lengths[State.FAILED] == 1


async def test_what_the_manifest_leaves_open_stays_as_a_program_set_it(valkey: Server) -> None:
    async with claimq.connect(valkey.url) as store:
        queue = store.queue("q", worker="w")
        await queue.set_policy(Policy(requeue_limit=9, id_window=60.0, claim_wait_timeout=0.5))
        upkeep = Maintenance()
        await upkeep.run(queue, POLICY, (), now=100.0, asks_workers=False)
        assert await queue.policy() == replace(Policy(**POLICY), id_window=60.0, claim_wait_timeout=0.5)
        await queue.update_policy(id_window=120.0, requeue_limit=3)
        await upkeep.run(queue, POLICY, (), now=100.0 + POLICY_SECONDS, asks_workers=False)
        assert await queue.policy() == replace(Policy(**POLICY), id_window=120.0, claim_wait_timeout=0.5)


async def test_a_field_that_cannot_be_read_is_replaced(valkey: Server) -> None:
    valkey.call("HSET", "cq:{q}:config", "requeue_limit", "many")
    async with claimq.connect(valkey.url) as store:
        queue = store.queue("q", worker="w")
        await Maintenance().run(queue, POLICY, (), now=100.0, asks_workers=False)
        assert await queue.policy() == Policy(**POLICY)
