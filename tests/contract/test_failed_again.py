"""A failed item that fails again after it was read: it is not removed in place of what was read."""

import pytest

from claimq import ReliableQueue
from testkit.queues.clock import move_clock

pytestmark = pytest.mark.frozen_clock(True)


async def fail(queue: ReliableQueue, name: str) -> None:
    """Makes an item fail, a second after the last one. It is new or in failed."""
    if not await queue.requeue_failed_item(name):
        await queue.enqueue(name, id=name)
    await move_clock(queue, 1)
    await queue.fail(await queue.claim(wait=0), "bad", permanent=True)


async def failed(queue: ReliableQueue) -> list[str]:
    return [located.name for located in await queue.failed_items()]


async def test_an_item_that_has_failed_again_since_it_was_read_is_not_removed(queue: ReliableQueue) -> None:
    await fail(queue, "a")
    await fail(queue, "b")
    read, other = await queue.failed_items()
    await fail(queue, "a")
    assert await queue.remove_failed_item("a", failed_at=read.failed_at) is None
    assert await failed(queue) == ["b", "a"]
    assert await queue.remove_failed_item("b", failed_at=other.failed_at) is not None
    assert await failed(queue) == ["a"]


async def test_a_drain_leaves_an_item_that_has_failed_again_since_it_was_read(queue: ReliableQueue) -> None:
    await fail(queue, "a")
    await fail(queue, "b")
    drained: list[str] = []
    async for one in queue.drain_failed(min_age=0):
        if not drained:
            await fail(queue, "a")
        drained.append(one.name)
    assert drained == ["a", "b"]
    assert await failed(queue) == ["a"]
