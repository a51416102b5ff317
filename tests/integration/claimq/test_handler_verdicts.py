"""Fail and Requeue: verdicts that a handler of consume() raises."""

import logging

import pytest

from claimq import Fail, Item, Later, OnFailure, Policy, ReliableQueue, Requeue, State
from testkit.workers.handlers import fill


async def only_failed(queue: ReliableQueue) -> Item:
    (failed,) = await queue.failed_items()
    return failed.item


async def test_a_raised_fail_keeps_its_own_text_and_detail(
    queue: ReliableQueue, caplog: pytest.LogCaptureFixture
) -> None:
    await queue.set_policy(Policy(requeue_limit=0))
    await fill(queue, 1)

    async def handler(_: Item) -> None:
        raise Fail("exit code 3", detail="its last words")

    consumed = await queue.consume(handler, return_when_empty=True)
    item = await only_failed(queue)
    assert (item.last_error, item.error_detail, consumed.failed) == ("exit code 3", "its last words", 1)
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.getMessage().endswith(f"{item.id} (attempt 1): exit code 3")
    assert record.exc_info is None


async def test_a_raised_fail_has_its_own_delay_and_logs_its_cause(
    queue: ReliableQueue, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(queue, 1)

    async def handler(_: Item) -> None:
        raise Fail("no network", delay=60) from OSError("unplugged")

    await queue.consume(handler, max_items=1)
    assert (await queue.lengths())[State.DELAYED] == 1
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], OSError)


async def test_a_permanent_fail_goes_straight_to_failed(queue: ReliableQueue) -> None:
    await fill(queue, 1)

    def handler(_: Item) -> None:
        raise Fail("no such file", permanent=True)

    await queue.consume(handler, max_items=1)
    assert (await only_failed(queue)).fail_count == 1


async def test_on_failure_applies_to_a_raised_fail_too(queue: ReliableQueue) -> None:
    await fill(queue, 1)

    async def handler(_: Item) -> None:
        raise Fail("not this one")

    await queue.consume(handler, max_items=1, on_failure=OnFailure.DROP)
    assert [removed.item.last_error for removed in await queue.removed_items()] == ["not this one"]


async def test_a_raised_requeue_is_no_failure(queue: ReliableQueue, caplog: pytest.LogCaptureFixture) -> None:
    await fill(queue, 2)

    async def handler(item: Item) -> None:
        if not item.requeue_count:
            raise Requeue

    consumed = await queue.consume(handler, return_when_empty=True, die_on_error=True)
    assert (consumed.done, consumed.failed, consumed.requeued) == (2, 0, 2)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_raised_requeue_may_have_a_delay(queue: ReliableQueue) -> None:
    await fill(queue, 1)

    async def handler(_: Item) -> None:
        raise Requeue(delay=60)

    await queue.consume(handler, return_when_empty=True)
    (located,) = await queue.items(State.DELAYED)
    assert (located.item.requeue_count, located.item.fail_count) == (1, 0)


def test_the_arguments_of_verdicts_are_checked() -> None:
    with pytest.raises(ValueError, match="delay"):
        Requeue(delay=-1)
    with pytest.raises(TypeError, match="error is 3"):
        Fail(3)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] # what the check is for


async def test_a_raised_later_is_no_failure_and_no_attempt(
    queue: ReliableQueue, caplog: pytest.LogCaptureFixture
) -> None:
    await queue.set_policy(Policy(requeue_limit=0))
    await fill(queue, 2)

    async def handler(item: Item) -> None:
        if item.postponed_count < 2:
            raise Later(0)

    consumed = await queue.consume(handler, return_when_empty=True, die_on_error=True)
    assert (consumed.done, consumed.failed, consumed.requeued, consumed.postponed) == (2, 0, 0, 4)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
