"""Unusual endings of handlers, of consume() and of the server."""

import asyncio
import threading
from typing import Any

import pytest

import claimq
from claimq import Item, Outcome, ReliableQueue, State, StoreUnavailable
from testkit.waiting import PATIENCE, eventually


@pytest.mark.usefixtures("retries_at_once")
async def test_a_plain_handler_that_lets_a_stop_iteration_through_fails_its_item(
    queue: ReliableQueue,
) -> None:
    await queue.enqueue("a")

    def handler(item: Item) -> object:
        return next(iter(()))

    async with asyncio.timeout(PATIENCE):
        consumed = await queue.consume(handler, max_items=1)

    assert consumed.failed == 1
    assert (await queue.peek())[0].last_error == "StopIteration: "


@pytest.mark.usefixtures("retries_at_once")
@pytest.mark.parametrize("in_thread", [False, True])
async def test_a_handler_that_lets_a_foreign_cancellation_through_fails_its_item(
    queue: ReliableQueue, in_thread: bool
) -> None:
    """It must neither end the program nor go back uncounted: the item would be the first of the next program too."""
    await queue.enqueue_many(["a", "b"])

    async def handler(item: Item) -> None:
        if item.text == "a":
            waiting = asyncio.ensure_future(asyncio.sleep(60))
            waiting.cancel()
            await waiting

    def plain(item: Item) -> None:
        if item.text == "a":
            raise asyncio.CancelledError

    consumed = await queue.consume(plain if in_thread else handler, max_items=2)

    assert (consumed.done, consumed.failed) == (1, 1)
    [item] = await queue.peek(2)
    assert (item.text, item.fail_count) == ("a", 1)
    assert "CancelledError" in (item.last_error or "")


@pytest.mark.usefixtures("retries_at_once")
async def test_a_cancellation_holds_also_when_the_plain_handler_then_raises(queue: ReliableQueue) -> None:
    await queue.enqueue_many(["a", "b", "c"])
    begun, may_end = threading.Event(), threading.Event()

    def handler(item: Item) -> None:
        begun.set()
        may_end.wait(PATIENCE)
        raise ValueError("broken")

    consuming = asyncio.ensure_future(queue.consume(handler))
    await asyncio.to_thread(begun.wait, 60)
    consuming.cancel()
    await asyncio.sleep(0)
    may_end.set()

    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(PATIENCE):
            await asyncio.shield(consuming)
    assert await queue.length(State.MAIN) == 3


@pytest.mark.usefixtures("retries_at_once")
async def test_the_first_error_lets_the_other_handlers_finish(queue: ReliableQueue) -> None:
    """With ``die_on_error``. What no handler has begun with goes back uncounted."""
    await queue.enqueue_many(["bad 1", "good", "bad 2", *"abcdef"])
    running, begun, may_end = asyncio.Barrier(3), list[str](), asyncio.Event()

    async def handler(item: Item) -> None:
        begun.append(item.text)
        await running.wait()
        if item.text != "bad 1":
            await may_end.wait()
        if item.text.startswith("bad"):
            raise ValueError(item.text)

    async def only_two_run() -> bool:
        return await queue.lengths() == {State.MAIN: 7, State.BUSY: 2, State.DELAYED: 0, State.FAILED: 0}

    consuming = asyncio.ensure_future(queue.consume(handler, concurrency=3, chunk=4, die_on_error=True))
    await eventually(only_two_run, why="the failed item and those that no handler has begun with are back")
    assert not consuming.done()
    may_end.set()
    with pytest.raises(ValueError, match="bad 1"):
        await consuming
    assert begun == ["bad 1", "good", "bad 2"]
    assert (await queue.stats())["done"] == 1
    left = [(item.text, item.fail_count, item.requeue_count) for item in await queue.peek(9)]
    assert left == [*((text, 0, 0) for text in "abcdef"), ("bad 1", 1, 1), ("bad 2", 1, 1)]


async def test_closing_the_server_ends_a_consume(store: claimq.Server, queue: ReliableQueue) -> None:
    consuming = asyncio.ensure_future(queue.consume(print))
    await eventually(lambda: len(store._connection.clients._clients) > 1)

    await store.close()

    with pytest.raises(StoreUnavailable, match="closed"):
        async with asyncio.timeout(PATIENCE):
            await consuming


@pytest.mark.parametrize("ending", ["stopped", "cancelled"])
async def test_an_item_that_waits_for_earlier_verdicts_goes_back_when_the_run_ends(
    queue: ReliableQueue, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    """It has crashed a worker before, so its handler begins when the verdicts of others are stored."""
    await queue.enqueue("suspect")
    await queue.crash(await queue.claim(), "died")
    await queue.enqueue("first", priority="high")
    handled: list[str] = []
    done, may_be_stored, stop = queue.done, asyncio.Event(), asyncio.Event()

    async def slow_done(*args: Any, **kwargs: Any) -> list[Outcome]:
        await may_be_stored.wait()
        return await done(*args, **kwargs)

    async def both_are_busy() -> bool:
        return await queue.length(State.BUSY) == 2

    async def handler(item: Item) -> None:
        handled.append(item.text)

    monkeypatch.setattr(queue, "done", slow_done)
    consuming = asyncio.ensure_future(queue.consume(handler, stop=stop))
    await eventually(both_are_busy)
    if ending == "stopped":
        stop.set()
    else:
        consuming.cancel()
    await asyncio.sleep(0.05)
    may_be_stored.set()
    async with asyncio.timeout(PATIENCE):
        await asyncio.wait({consuming})

    assert consuming.cancelled() == (ending == "cancelled")
    assert handled == ["first"]
    assert await queue.lengths() == {State.MAIN: 1, State.BUSY: 0, State.DELAYED: 0, State.FAILED: 0}
    [item] = await queue.peek()
    assert (item.text, item.crash_count, item.interrupted_count) == ("suspect", 1, 1)
