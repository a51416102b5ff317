"""consume(): every option, and how it ends."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from claimq import Consumed, Item, Policy, ReliableQueue, State
from testkit.queues.looking import texts
from testkit.queues.retries import retrying_at_once
from testkit.waiting import PATIENCE, eventually
from testkit.workers.handlers import Seen, fill


async def counts(queue: ReliableQueue) -> tuple[int, int, int, int]:
    lengths = await queue.lengths()
    return lengths[State.MAIN], lengths[State.BUSY], lengths[State.DELAYED], lengths[State.FAILED]


async def test_items_are_handled_in_order_and_done(queue: ReliableQueue, seen: Seen) -> None:
    payloads = await fill(queue, 25)
    consumed = await queue.consume(seen, chunk=10, return_when_empty=True)
    assert seen.payloads == payloads
    assert (consumed.done, consumed.failed, consumed.lost, consumed.stopped_by) == (25, 0, 0, "empty")
    assert await counts(queue) == (0, 0, 0, 0)


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_a_paused_queue_is_not_reported_as_empty(
    queue: ReliableQueue, seen: Seen, concurrency: int
) -> None:
    await fill(queue, 2)
    await queue.pause()
    consumed = await queue.consume(seen, concurrency=concurrency, return_when_empty=True)
    assert (consumed.done, consumed.stopped_by) == (0, "paused")
    await queue.resume()
    consumed = await queue.consume(seen, concurrency=concurrency, return_when_empty=True)
    assert (consumed.done, consumed.stopped_by) == (2, "empty")


async def test_a_queue_that_is_paused_during_the_work_is_not_reported_as_empty(queue: ReliableQueue) -> None:
    await fill(queue, 3)

    async def pause(_: Item) -> None:
        await queue.pause()

    consumed = await queue.consume(pause, return_when_empty=True)
    assert (consumed.done, consumed.stopped_by) == (1, "paused")
    assert await counts(queue) == (2, 0, 0, 0)


async def test_a_plain_function_runs_in_a_thread_and_what_it_returns_is_awaited(queue: ReliableQueue) -> None:
    await fill(queue, 2)
    threads: list[str] = []
    awaited: list[str] = []

    async def later(item: Item) -> None:
        awaited.append(item.text)

    def handler(item: Item) -> object:
        threads.append(threading.current_thread().name)
        return later(item)

    await queue.consume(handler, return_when_empty=True)
    assert all(name.startswith("claimq-handler") for name in threads)
    assert awaited == ["0", "1"]


@pytest.mark.parametrize("concurrency", [1, 3])
@pytest.mark.parametrize("chunk", [1, 4, 100])
@pytest.mark.parametrize("most", [0, 1, 7, 10])
async def test_max_items_are_handled_exactly(
    queue: ReliableQueue, seen: Seen, concurrency: int, chunk: int, most: int
) -> None:
    await fill(queue, 20)
    consumed = await queue.consume(seen, concurrency=concurrency, chunk=chunk, max_items=most)
    assert (consumed.done, consumed.stopped_by) == (most, "max_items")
    assert sorted(seen.payloads, key=int) == [str(number) for number in range(most)]
    assert await counts(queue) == (20 - most, 0, 0, 0)


async def test_max_items_waits_for_items_that_come_later(queue: ReliableQueue, seen: Seen) -> None:
    consuming = asyncio.ensure_future(queue.consume(seen, concurrency=2, chunk=5, max_items=3))
    await fill(queue, 1)
    await eventually(lambda: seen.payloads)
    await fill(queue, 2)
    assert (await consuming).done == 3


async def test_as_many_handlers_run_at_once_as_asked_for(queue: ReliableQueue, seen: Seen) -> None:
    await fill(queue, 9)
    seen.may_go_on.clear()
    consuming = asyncio.ensure_future(queue.consume(seen, concurrency=4, return_when_empty=True))
    await eventually(lambda: seen.running == 4)
    seen.may_go_on.set()
    await consuming
    assert (len(seen.payloads), seen.most_at_once) == (9, 4)


async def test_as_many_threads_run_at_once_as_asked_for(queue: ReliableQueue) -> None:
    """More than the event loop's own pool would have on a small machine."""
    await fill(queue, 40)
    together = threading.Barrier(40, timeout=PATIENCE)
    consumed = await queue.consume(lambda _: together.wait(), concurrency=40, return_when_empty=True)
    assert consumed.done == 40


async def test_with_process_all_the_handler_gets_the_whole_chunk(queue: ReliableQueue) -> None:
    await fill(queue, 7)
    chunks: list[list[str]] = []

    async def handler(items: Sequence[Item]) -> None:
        chunks.append([item.text for item in items])

    consumed = await queue.consume(handler, chunk=3, process_all=True, return_when_empty=True)
    assert chunks == [["0", "1", "2"], ["3", "4", "5"], ["6"]]
    assert consumed.done == 7


async def test_a_failing_chunk_fails_all_of_it(queue: ReliableQueue) -> None:
    await queue.set_policy(Policy(requeue_limit=0))
    await fill(queue, 3)

    async def handler(items: Sequence[Item]) -> None:
        raise ValueError("no")

    consumed = await queue.consume(handler, chunk=3, process_all=True, return_when_empty=True)
    assert consumed.failed == 3
    assert [failed.item.last_error for failed in await queue.failed_items()] == ["ValueError: no"] * 3


@pytest.mark.parametrize(
    ("on_failure", "after"), [("requeue", (0, 0, 0, 1)), ("fail", (0, 0, 0, 1)), ("drop", (0, 0, 0, 0))]
)
async def test_a_failing_item_goes_where_on_failure_says(
    queue: ReliableQueue, seen: Seen, on_failure: str, after: tuple[int, int, int, int]
) -> None:
    await queue.set_policy(retrying_at_once(requeue_limit=2))
    await queue.enqueue_many(["good", "bad", "good"])
    consumed = await queue.consume(seen, on_failure=on_failure, return_when_empty=True)
    attempts = 3 if on_failure == "requeue" else 1
    assert (consumed.done, consumed.failed) == (2, attempts)
    assert seen.payloads.count("bad") == attempts
    assert await counts(queue) == after
    for failed in await queue.failed_items():
        assert failed.item.last_error == "ValueError: bad is bad"
        assert failed.item.fail_count == attempts


async def test_an_unknown_on_failure_is_refused_before_anything_is_claimed(
    queue: ReliableQueue, seen: Seen
) -> None:
    await fill(queue, 1)
    with pytest.raises(ValueError, match="ignore"):
        await queue.consume(seen, on_failure="ignore")
    assert await counts(queue) == (1, 0, 0, 0)


@pytest.mark.parametrize("options", [{"concurrency": 0}, {"chunk": 0}, {"max_items": -1}, {"pause": -1.0}])
async def test_options_that_make_no_sense_are_refused(
    queue: ReliableQueue, seen: Seen, options: dict[str, int]
) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        await queue.consume(seen, **options)  # type: ignore[arg-type]  # the table mixes whole numbers and seconds


@pytest.mark.usefixtures("retries_at_once")
async def test_with_die_on_error_the_first_error_ends_it_and_is_raised(
    queue: ReliableQueue, seen: Seen
) -> None:
    await queue.enqueue_many(["good", "bad", "next", "rest"])
    with pytest.raises(ValueError, match="bad is bad"):
        await queue.consume(seen, chunk=4, die_on_error=True)
    assert seen.payloads == ["good", "bad"]
    assert texts(await queue.peek(9)) == ["next", "rest", "bad"]
    counters = [(item.interrupted_count, item.fail_count) for item in await queue.peek(9)]
    assert counters == [(1, 0), (1, 0), (0, 1)]


async def test_a_stop_finishes_running_items_and_returns_the_rest_in_order_uncounted(
    queue: ReliableQueue, seen: Seen
) -> None:
    await fill(queue, 10)
    stop = asyncio.Event()
    seen.may_go_on.clear()
    consuming = asyncio.ensure_future(queue.consume(seen, concurrency=2, chunk=4, stop=stop))
    await eventually(lambda: seen.running == 2)
    stop.set()
    await eventually(lambda: _given_back(queue, 8), why="what was not begun goes back at once")
    assert seen.running == 2
    seen.may_go_on.set()
    consumed = await consuming
    assert (consumed.done, consumed.stopped_by) == (2, "stop")
    left = texts(await queue.peek(99))
    assert left == sorted(set("0123456789") - set(seen.payloads))
    assert [item.requeue_count + item.crash_count for item in await queue.peek(99)] == [0] * 8


async def _given_back(queue: ReliableQueue, count: int) -> bool:
    return await queue.length() == count


async def test_max_seconds_end_it_in_good_order(queue: ReliableQueue, seen: Seen) -> None:
    await fill(queue, 3)
    seen.may_go_on.clear()
    runs: list[asyncio.Task[Consumed]] = []

    def has_begun() -> bool:
        """A busy machine may be late for the first item; then another run follows."""
        if not runs or runs[-1].done():
            runs.append(asyncio.ensure_future(queue.consume(seen, chunk=3, max_seconds=2)))
        return seen.running == 1

    await eventually(has_begun)
    await eventually(lambda: _given_back(queue, 2), why="what was not begun goes back when the time is over")
    seen.may_go_on.set()
    consumed = await runs[-1]
    assert (consumed.done, consumed.stopped_by) == (1, "max_seconds")
    assert await counts(queue) == (2, 0, 0, 0)


async def test_a_stop_ends_the_wait_for_items_at_once(queue: ReliableQueue, seen: Seen) -> None:
    async def seconds() -> float:
        started = asyncio.get_running_loop().time()
        assert (await queue.consume(seen, max_seconds=0.05)).done == 0
        return asyncio.get_running_loop().time() - started

    async def ends_at_once() -> bool:
        return await seconds() < 0.8

    await eventually(ends_at_once, why="it looks by itself after a second")


async def test_it_ends_as_empty_only_when_no_handler_can_add_more(queue: ReliableQueue) -> None:
    """The other loops wait for the one that works, and then help with what it enqueued."""
    await queue.enqueue("first")
    both = asyncio.Barrier(2)

    async def handler(item: Item) -> None:
        if item.text == "first":
            await asyncio.sleep(0.05)
            await queue.enqueue_many(["second", "third"])
        else:
            async with asyncio.timeout(PATIENCE):
                await both.wait()

    consumed = await queue.consume(handler, concurrency=3, return_when_empty=True)
    assert (consumed.done, consumed.failed, consumed.stopped_by) == (3, 0, "empty")


async def test_an_empty_main_does_not_take_what_the_other_loops_hold(
    queue: ReliableQueue, seen: Seen
) -> None:
    await fill(queue, 5)
    seen.may_go_on.clear()
    consuming = asyncio.ensure_future(queue.consume(seen, concurrency=2, chunk=5, return_when_empty=True))
    await eventually(lambda: seen.running >= 1)
    seen.may_go_on.set()
    assert (await consuming).done == 5
    assert [item.interrupted_count for item in await queue.peek(9)] == []


async def test_a_pause_lies_between_chunks(queue: ReliableQueue, seen: Seen) -> None:
    await fill(queue, 3)
    started = asyncio.get_running_loop().time()
    await queue.consume(seen, pause=0.1, max_items=3)
    assert asyncio.get_running_loop().time() - started >= 0.2


async def test_a_stop_ends_a_pause_at_once(queue: ReliableQueue, seen: Seen) -> None:
    await fill(queue, 3)
    stop = asyncio.Event()
    consuming = asyncio.ensure_future(queue.consume(seen, pause=600, stop=stop))
    await eventually(lambda: _done(queue, 1))
    stop.set()
    async with asyncio.timeout(PATIENCE):
        assert (await consuming).done == 1


async def _done(queue: ReliableQueue, count: int) -> bool:
    return (await queue.stats())["done"] == count
