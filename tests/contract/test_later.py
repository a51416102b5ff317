"""later: not now, and not the item's fault. Delayed; only how often it was postponed is counted."""

from dataclasses import replace
from datetime import timedelta

import pytest

from claimq import Policy, ReliableQueue
from claimq.internals.operations import internals
from testkit.queues.clock import move_clock
from testkit.queues.looking import Lengths, claim_one, lengths, texts, verdicts

pytestmark = pytest.mark.frozen_clock(True)


async def test_a_postponed_item_counts_no_attempt_no_failure_and_no_crash(queue: ReliableQueue) -> None:
    await queue.set_policy(Policy(requeue_limit=0))
    await queue.enqueue("a")
    for times in range(1, 8):
        (outcome,) = await queue.later(await claim_one(queue), 60)
        assert (outcome.verdict, outcome.delay) == ("delayed", 60)
        await move_clock(queue, 59.9)
        await queue.reap()
        assert await lengths(queue) == Lengths(delayed=1)
        await move_clock(queue, 0.1)
        await queue.reap()
        (item,) = await queue.peek(1)
        counts = (item.requeue_count, item.fail_count, item.crash_count, item.interrupted_count)
        assert (counts, item.postponed_count) == ((0, 0, 0, 0), times)
        assert [entry.kind for entry in item.history] == ["postpone"], "one line, however often"
    stats = await queue.stats()
    assert (stats["postponed"], stats["delayed"], stats["requeued"], stats["fails"]) == (7, 7, 0, 0)


async def test_without_a_delay_a_postponed_item_is_the_last_one_of_main(queue: ReliableQueue) -> None:
    await queue.enqueue_many(["a", "b"])
    assert verdicts(await queue.later(await claim_one(queue), 0)) == ["requeued"]
    assert texts(await queue.peek(2)) == ["b", "a"]


async def test_an_item_that_is_postponed_too_often_goes_to_failed_with_that_reason(
    queue: ReliableQueue,
) -> None:
    await queue.set_policy(Policy(max_postponed=2))
    await queue.enqueue("a")
    for _ in range(2):
        assert verdicts(await queue.later(await claim_one(queue), 0, error="the api is away")) == ["requeued"]
    assert verdicts(await queue.later(await claim_one(queue), 0, error="the api is away")) == ["failed"]
    (failed,) = await queue.failed_items()
    assert failed.item.last_error == ("postponed 2 times, as often as max_postponed allows: the api is away")
    assert (failed.item.postponed_count, failed.item.given_up_count) == (2, 1)
    assert await queue.requeue_failed() == 1
    assert verdicts(await queue.later(await claim_one(queue), 0)) == ["requeued"], "it has all of them again"


async def test_an_item_is_not_postponed_past_its_deadline(queue: ReliableQueue) -> None:
    await queue.enqueue("a", deadline=timedelta(seconds=20))
    (outcome,) = await queue.later(await claim_one(queue), 60)
    assert (outcome.verdict, outcome.delay) == ("delayed", 20)
    await move_clock(queue, 10)
    await queue.enqueue("b", deadline=timedelta(seconds=5))
    claim = await claim_one(queue)
    await move_clock(queue, 6)
    assert verdicts(await queue.later(claim, 60)) == ["failed"]
    assert (await queue.stats())["past_deadline"] == 1


async def test_the_last_error_stays_unless_there_is_another_one(queue: ReliableQueue) -> None:
    await queue.enqueue("a")
    await queue.fail(await claim_one(queue), "out of disk", detail="frames", delay=0)
    await queue.later(await claim_one(queue), 0)
    (item,) = await queue.peek(1)
    assert (item.last_error, item.error_detail, item.fail_count) == ("out of disk", "frames", 1)
    await queue.later(await claim_one(queue), 0, error="busy")
    (item,) = await queue.peek(1)
    assert (item.last_error, item.error_detail) == ("busy", None)
    assert [replace(entry, at=0, worker="").error for entry in item.history] == ["out of disk", "busy"]


async def test_an_item_that_was_found_to_have_crashed_its_worker_is_not_postponed(
    queue: ReliableQueue,
) -> None:
    """Its limit was reached by a crash that was noticed while another worker held it."""
    await queue.set_policy(Policy(requeue_limit=0))
    await queue.enqueue("a")
    await queue.unclaim(await claim_one(queue), why="evicted")
    claim = await claim_one(queue)
    assert await internals(queue).recount(queue.worker, "OOMKilled") == 1
    assert verdicts(await queue.later(claim, 60)) == ["failed"]


@pytest.mark.parametrize("delay", [-1, None, "soon"])
async def test_a_delay_that_is_none_is_refused(queue: ReliableQueue, delay: object) -> None:
    await queue.enqueue("a")
    claim = await claim_one(queue)
    with pytest.raises((TypeError, ValueError), match=r"^delay is"):
        await queue.later(claim, delay)  # type: ignore[arg-type]  # what it refuses
    assert await lengths(queue) == Lengths(busy=1)
