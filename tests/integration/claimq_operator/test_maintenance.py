"""What a pass does on a queue's server, on a real one."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from claimq import FailedPolicy, Limit, Policy
from claimq.model import State, Verdict
from claimq.policy import PolicyFields
from claimq_control.passes.maintenance import POLICY_SECONDS, Maintenance
from claimq_control.workers import Termination
from testkit.queues.clock import move_clock
from testkit.queues.retries import retrying_at_once
from testkit.servers.patient import open_queue
from testkit.servers.server import Server

POLICY = PolicyFields(requeue_limit=0, failed=FailedPolicy(requeue_min_age=0.001, max_items=1))


async def test_a_full_server_is_maintained_and_observed_so_that_workers_can_start(
    start_server: Callable[..., Server],
) -> None:
    full = start_server("valkey", {"maxmemory-policy": "noeviction"})
    async with open_queue(full.url, worker="w") as queue:
        await queue.enqueue_many(["a", "b", "c"])
        await queue.fail(await queue.claim(2, wait=0), "broken", permanent=True)
        full.call("CONFIG", "SET", "maxmemory", "1")
        # As an operator does that has just started, or has just seen a fault: nothing is written yet.
        kept = await Maintenance().run(queue, POLICY, (), now=100.0, has_workers=True)
        assert await queue.policy() == Policy(**POLICY)
    assert kept.snapshot.lengths[State.MAIN] == 1
    # What has to be kept no longer is removed; what should be sent back waits in failed for room.
    assert kept.snapshot.lengths[State.FAILED] == 1


async def test_fields_that_the_manifest_leaves_out_keep_their_values(valkey: Server) -> None:
    async with open_queue(valkey.url, worker="w") as queue:
        await queue.set_policy(Policy(requeue_limit=9, id_window=60.0, claim_wait_timeout=0.5))
        maintenance = Maintenance()
        await maintenance.run(queue, POLICY, (), now=100.0, has_workers=False)
        assert await queue.policy() == replace(Policy(**POLICY), id_window=60.0, claim_wait_timeout=0.5)
        await queue.update_policy(id_window=120.0, requeue_limit=3)
        await maintenance.run(queue, POLICY, (), now=100.0 + POLICY_SECONDS, has_workers=False)
        assert await queue.policy() == replace(Policy(**POLICY), id_window=120.0, claim_wait_timeout=0.5)


async def test_limits_without_room_beside_temporary_ones_are_set_once_those_are_over(valkey: Server) -> None:
    limits = tuple(Limit(f"l{number}", busy=1) for number in range(8))
    async with open_queue(valkey.url, worker="w") as queue:
        await queue.set_limit(Limit("other", busy=1), until=timedelta(hours=1))
        maintenance, policy = Maintenance(), PolicyFields(limits=limits, requeue_limit=7)
        await maintenance.run(queue, policy, (), now=100.0, has_workers=False)
        assert await queue.policy() == Policy(requeue_limit=7)
        await queue.reset_limits()
        await maintenance.run(queue, policy, (), now=100.0 + POLICY_SECONDS, has_workers=False)
        assert await queue.policy() == Policy(**policy)


async def test_an_invalid_field_of_the_policy_is_replaced(valkey: Server) -> None:
    valkey.call("HSET", "cq:{q}:config", "requeue_limit", "many")
    async with open_queue(valkey.url, worker="w") as queue:
        await Maintenance().run(queue, POLICY, (), now=100.0, has_workers=False)
        assert await queue.policy() == Policy(**POLICY)


async def test_two_ends_of_an_app_close_together_are_recorded_each_with_its_cause(
    valkey: Server,
) -> None:
    def ended(run: int, at: float) -> Termination:
        return Termination(f"cid{run}", "pod.", False, f"worker ended: OOMKilled; run {run}", ended_at=at)

    async with open_queue(valkey.url, worker="pod.1") as queue:
        maintenance = Maintenance()

        async def crash() -> float:
            (claimed,) = await queue.claim(1, wait=0)
            at = (await queue.snapshot()).now
            await queue.crash(claimed, "the app ended its session")
            return at

        async def observe(*found: Termination) -> None:
            await maintenance.run(queue, None, found, now=100.0, has_workers=True)

        await queue.set_policy(retrying_at_once())
        await queue.enqueue("bad")
        first = await crash()
        await observe(ended(1, first - 1))
        second = await crash()
        # The status still shows the run that has ended just now, and with it the first run's end.
        await observe(ended(1, first - 1))
        await observe(ended(2, second))
        (item,) = await queue.peek(1)
        assert [entry.error[-5:] for entry in item.history] == ["run 1", "run 2"]


@pytest.mark.parametrize("ahead", [-3600.0, -5.0, 0.0, 5.0, 3600.0])
async def test_claims_of_the_next_run_stay_whatever_the_clock_of_the_node_shows(
    valkey: Server, ahead: float
) -> None:
    async with open_queue(valkey.url, worker="pod.1") as queue:
        maintenance = Maintenance()

        async def observe(*found: Termination) -> int:
            await move_clock(queue, 1.0)
            done = await maintenance.run(queue, None, found, now=100.0, has_workers=True)
            return sum(one.count for one in done.released)

        await queue.enqueue_many(["of the first run", "of either run", "of the second run"])
        await queue.claim(1, wait=0)
        await observe()
        await queue.claim(1, wait=0)
        await observe()
        (ours,) = await queue.claim(1, wait=0)
        at = (await queue.snapshot()).now + ahead
        ended = Termination("cid1", "pod.", False, "worker ended: exit code 1; run 1", ended_at=at)
        assert [await observe(ended) for _ in range(3)] == [1, 0, 0]
        assert await queue.lengths() == {**dict.fromkeys(State, 0), State.MAIN: 1, State.BUSY: 2}
        (back,) = await queue.peek(3)
        assert (back.payload, back.crash_count) == (b"of the first run", 1)
        assert (await queue.done(ours))[0].verdict is Verdict.DONE
        # Later the second run ends as well, and waits for its next one.
        assert await observe(replace(ended, container_id="cid2", is_last=True)) == 1
        assert (await queue.lengths())[State.BUSY] == 0


async def test_claims_of_a_run_that_no_pass_has_seen_are_left_to_their_leases(
    valkey: Server,
) -> None:
    async with open_queue(valkey.url, worker="pod.1") as queue:
        maintenance = Maintenance()
        await queue.enqueue("a")
        await queue.claim(1, wait=0)
        ended = Termination("cid1", "pod.", False, "worker ended: exit code 1; run 1")
        for _ in range(3):
            assert not (await maintenance.run(queue, None, [ended], now=100.0, has_workers=True)).released
