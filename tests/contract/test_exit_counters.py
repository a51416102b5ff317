"""The ways in which items leave a queue, each counted: no item is dropped silently."""

from collections.abc import Awaitable, Callable

import pytest

from claimq import FailedPolicy, Item, OnExpiry, Policy, ReliableQueue, State
from testkit.queues.clock import move_clock
from testkit.queues.looking import lengths
from testkit.servers.server import Server

pytestmark = pytest.mark.frozen_clock(True)


async def fail_both(queue: ReliableQueue) -> None:
    await queue.fail(await queue.claim(2, wait=0), "no", permanent=True)


async def done(queue: ReliableQueue) -> None:
    await queue.done(await queue.claim(2, wait=0))


async def remove_failed(queue: ReliableQueue) -> None:
    await fail_both(queue)
    await queue.remove_failed()


async def drain_failed(queue: ReliableQueue) -> None:
    await fail_both(queue)
    async for _ in queue.drain_failed():
        pass


async def apply_policy(queue: ReliableQueue) -> None:
    await queue.set_policy(Policy(failed=FailedPolicy(remove_min_age=0)))
    await fail_both(queue)
    await queue.apply_failed_policy()


async def drop(queue: ReliableQueue) -> None:
    await queue.drop(await queue.claim(2, wait=0), "no")


async def flush_client(queue: ReliableQueue) -> None:
    await queue.done(await queue.claim(2, wait=0))
    await queue.enqueue("c", client="ann")
    await queue.flush_client("ann")


async def expire(queue: ReliableQueue) -> None:
    await queue.set_policy(Policy(busy_expiry=1, on_expiry=OnExpiry.DROP))
    await queue.claim(2, wait=0)
    await move_clock(queue, 2)
    await queue.reap()


async def exceed_max_items(queue: ReliableQueue) -> None:
    await queue.set_policy(Policy(failed=FailedPolicy(max_items=1)))
    await queue.enqueue("c")
    await queue.fail(await queue.claim(3, wait=0), "no", permanent=True)
    await queue.remove_failed_item((await queue.failed_items())[0].item.id)


async def consume(queue: ReliableQueue) -> None:
    def handler(item: Item) -> None:
        raise ValueError(item.text)

    await queue.consume(handler, on_failure="drop", max_items=2)


async def flush(queue: ReliableQueue) -> None:
    await queue.flush()


WAYS: dict[str, tuple[Callable[[ReliableQueue], Awaitable[None]], str, int]] = {
    "done": (done, "done", 2),
    "remove_failed": (remove_failed, "failed_removed", 2),
    "drain_failed": (drain_failed, "failed_removed", 2),
    "the policy for failed items": (apply_policy, "failed_removed", 2),
    "drop": (drop, "dropped", 2),
    "flush_client": (flush_client, "flushed", 1),
    "on_expiry: drop": (expire, "dropped", 2),
    "max_items of failed": (exceed_max_items, "failed_removed", 3),
    "on_failure=drop of consume": (consume, "dropped", 2),
    "flush": (flush, "flushed", 2),
}


@pytest.mark.parametrize("way", WAYS)
async def test_each_way_out_of_a_queue_is_counted(queue: ReliableQueue, way: str) -> None:
    leave, counter, count = WAYS[way]
    await queue.enqueue_many(list("ab"))
    await leave(queue)
    stats = await queue.stats()
    assert sum(stats[name] for name in counter.split()) == count
    assert sum(await lengths(queue)) == 0
    gone = sum(stats[name] for name in ("done", "dropped", "failed_removed", "flushed"))
    assert stats["enqueued"] + stats["adopted"] == gone


async def test_a_bare_payload_that_is_flushed_is_counted_as_come_and_gone(
    server: Server, queue: ReliableQueue
) -> None:
    server.call("LPUSH", "cq:{q}:main", "a", "b")
    await queue.enqueue("c")
    await queue.flush()
    stats = await queue.stats()
    assert (stats["enqueued"], stats["adopted"], stats["flushed"]) == (1, 2, 3)


async def test_a_deletion_returns_how_many_items_there_were(queue: ReliableQueue) -> None:
    await queue.enqueue_many(list("abc"))
    await queue.claim(1, wait=0)
    assert await queue.delete() == {State.MAIN: 2, State.BUSY: 1, State.DELAYED: 0, State.FAILED: 0}
