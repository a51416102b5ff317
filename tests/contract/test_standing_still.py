"""What a snapshot has of progress: when something was claimed last, how long items take, and the oldest claim."""

import pytest

from claimq import NewItem, OnExpiry, Policy, ReliableQueue
from testkit.queues.clock import move_clock
from testkit.queues.script_calls import call as call_script
from testkit.servers.server import Server

pytestmark = pytest.mark.frozen_clock(True)


async def test_a_queue_knows_when_an_item_was_claimed_last(queue: ReliableQueue) -> None:
    await queue.enqueue_many(["a", "b"])
    assert (await queue.snapshot()).moved_at is None
    await queue.claim(wait=0)
    claimed_at = (await queue.snapshot()).now
    await move_clock(queue, 300)
    assert (await queue.snapshot()).moved_at == claimed_at


@pytest.mark.parametrize("verdict", ["done", "done with followers", "done and claim", "fail"])
async def test_the_longest_time_until_a_verdict_is_remembered(
    server: Server, queue: ReliableQueue, verdict: str
) -> None:
    for seconds in (90, 20):
        await queue.enqueue("a")
        (claim,) = await queue.claim(wait=0)
        await move_clock(queue, seconds)
        if verdict == "fail":
            await queue.fail(claim, "no", permanent=True)
        elif verdict == "done and claim":
            known = server.call("HGET", "cq:{q}:stats", "incarnation")
            await call_script(queue, "done_claim", "w1", 1, "nonce-12", known, 1, "w1", 1, claim.token)
        else:
            await queue.done(claim, enqueue=[NewItem("f", delay=999)] if verdict != "done" else [])
        assert (await queue.snapshot()).longest == 90


@pytest.mark.parametrize(("took", "remembered_for"), [(90, 3600), (7200, 72_000)], ids=["short", "long"])
async def test_the_longest_item_is_remembered_for_an_hour_or_ten_times_as_long(
    queue: ReliableQueue, took: int, remembered_for: int
) -> None:
    """Else the next long item of a mixed queue would be reported as stuck."""
    await queue.set_policy(Policy(busy_expiry=86_400))
    for seconds, pause, longest in (
        (took, 0, took),
        (20, remembered_for - 25, took),
        (5, 1, took),
        (4, 0, 4),
    ):
        await queue.enqueue("a")
        (claim,) = await queue.claim(wait=0)
        await move_clock(queue, seconds)
        await queue.done(claim)
        assert (await queue.snapshot()).longest == longest
        await move_clock(queue, pause)


async def test_a_claim_that_ends_without_a_verdict_does_not_count_as_long(queue: ReliableQueue) -> None:
    """Else a worker that hangs would hide the next one that does."""
    await queue.set_policy(Policy(busy_expiry=600, on_expiry=OnExpiry.FAIL))
    await queue.enqueue_many(["a", "b"])
    await queue.claim(wait=0)
    await move_clock(queue, 700)
    await queue.reap()
    await queue.claim(wait=0)
    await move_clock(queue, 500)
    await queue.release_worker("w1")
    assert (await queue.snapshot()).longest == 0


async def test_the_oldest_claim_is_named_and_its_item_once_it_is_long(
    queue: ReliableQueue, other_worker: ReliableQueue
) -> None:
    await queue.set_policy(Policy(busy_expiry=3600))
    await queue.enqueue_many(
        [NewItem("a", id="order-7"), NewItem("b", id="order-8"), NewItem("c", id="order-9")]
    )
    (first,) = await other_worker.claim(wait=0)
    await move_clock(queue, 2)
    (second,) = await queue.claim(wait=0)
    seen = await queue.snapshot()
    assert (seen.oldest_claim, seen.oldest_item) == (first.token, "")
    await move_clock(queue, 60)
    seen = await queue.snapshot()
    assert (seen.oldest_claim, seen.oldest_item) == (first.token, "order-7")
    await queue.done([first])
    seen = await queue.snapshot()
    assert (seen.oldest_claim, seen.oldest_item) == (second.token, "")
    await queue.done([second])
    assert (await queue.snapshot()).oldest_claim == ""


async def test_the_workers_with_items_are_named_while_none_is_claimed_for_a_minute(
    queue: ReliableQueue, other_worker: ReliableQueue
) -> None:
    await queue.set_policy(Policy(busy_expiry=3600))
    await queue.enqueue_many(["a", "b", "c", "d"])
    claims = await other_worker.claim(2, wait=0) + await queue.claim(wait=0)
    await move_clock(queue, 60)
    assert (await queue.snapshot()).holders == ()
    await move_clock(queue, 1)
    seen = await queue.snapshot()
    assert sorted(seen.holders) == sorted({queue.worker, other_worker.worker})
    await queue.done(claims[:2])
    assert (await queue.snapshot()).holders == (queue.worker,)
    await queue.claim(wait=0)
    assert (await queue.snapshot()).holders == ()


async def test_the_id_of_a_large_item_is_not_read_for_a_snapshot(queue: ReliableQueue) -> None:
    await queue.enqueue("x" * 66_000, id="large")
    await queue.claim(wait=0)
    await move_clock(queue, 100)
    assert (await queue.snapshot()).oldest_item == ""
