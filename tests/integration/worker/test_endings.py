"""All ways out of an item and of a loop over items: none blocks the queue, and none is silent."""

import asyncio
import logging
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

import claimq.worker
from claimq import Fail, Requeue
from claimq.blocking import BlockingQueue
from claimq.model import State
from claimq.worker import Item, ItemNotSettled, Worker
from testkit.queues.looking import is_empty
from testkit.queues.retries import retrying_at_once
from testkit.waiting import eventually_sync
from testkit.workers.sidecars import Sidecar

pytestmark = pytest.mark.usefixtures("retries_at_once")


def counts(queue: BlockingQueue) -> tuple[int, int, int]:
    """Of the only item in main: fail count, crash count, interrupted count."""
    (item,) = queue.peek(9)
    return item.fail_count, item.crash_count, item.interrupted_count


def test_a_loop_that_forgets_with_fails_at_once_and_says_why(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue_many(["a", "b", "c"])
    seen: list[str] = []

    def work() -> None:
        with claimq.worker.connect(sidecar.socket) as worker:
            for item in worker.items(chunk=3):
                seen.append(item.text)  # noqa: PERF401 - the loop that is tested

    with pytest.raises(ItemNotSettled, match=r"Write `with item:` .* or end each item with item\.done\(\)"):
        work()
    assert seen == ["a"]
    b, c, a = queue.peek(9)
    assert [(one.payload, one.crash_count, one.fail_count) for one in (b, c)] == [(b"b", 0, 0), (b"c", 0, 0)]
    assert a.last_error is not None
    assert (a.payload, a.fail_count) == (b"a", 1)
    assert "write `with item:` around the work" in a.last_error


def test_a_block_may_raise_a_verdict(worker: Worker, queue: BlockingQueue) -> None:
    queue.enqueue_many(["a", "b", "c"])
    verdicts = [
        Fail("no such file", permanent=True, detail="at line 3"),
        Fail("later", delay=60),
        Requeue(delay=60),
    ]
    for verdict in verdicts:
        (item,) = worker.claim()
        with item:
            raise verdict
    (failed,) = queue.failed_items()
    assert (failed.item.last_error, failed.item.error_detail) == ("no such file", "at line 3")
    delayed = [located.item for located in queue.items(State.DELAYED, 9)]
    assert [(item.fail_count, item.last_error) for item in delayed] == [(1, "later"), (0, None)]


def test_an_async_loop_that_forgets_with_fails_at_once(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue_many(["a", "b", "c"])

    async def work() -> None:
        async with claimq.worker.connect_async(sidecar.socket) as worker:
            async for _ in worker.items(chunk=3):
                pass

    with pytest.raises(ItemNotSettled, match="Write `async with item:`"):
        asyncio.run(work())
    assert [(one.payload, one.fail_count, one.crash_count) for one in queue.peek(9)] == [
        (b"b", 0, 0), (b"c", 0, 0), (b"a", 1, 0),
    ]  # fmt: skip


def test_a_loop_with_verdicts_of_its_own_needs_no_block(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue_many(["a", "b"])
    with claimq.worker.connect(sidecar.socket) as worker:
        for item in worker.items():
            item.done()
            if item.text == "b":
                worker.stop()
    assert is_empty(queue)


def test_a_pool_settles_the_items_of_a_loop(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue_many([str(number) for number in range(20)])
    worker = claimq.worker.connect(sidecar.socket)

    def work(item: Item) -> None:
        with item:
            if item.text == "19":
                worker.stop()

    with worker, ThreadPoolExecutor(4) as pool:
        for item in worker.items(chunk=3, settle_elsewhere=True):
            pool.submit(work, item)
    assert is_empty(queue)


def test_an_item_kept_beyond_a_break_is_still_its_holders(worker: Worker, queue: BlockingQueue) -> None:
    queue.enqueue_many(["a", "b"])
    item = next(iter(worker.items(chunk=2)))
    assert item.done().verdict == "done"
    assert counts(queue) == (0, 0, 1)


def test_an_error_in_a_loop_counts_only_for_what_was_begun(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue_many(["a", "b"])

    async def work() -> None:
        async with claimq.worker.connect_async(sidecar.socket) as worker:
            loop = worker.items(chunk=2)  # kept alive by the traceback, so that it does not end by itself
            await anext(loop)
            raise ValueError("bad")

    with pytest.raises(ValueError, match="bad"):
        asyncio.run(work())
    eventually_sync(lambda: queue.length(State.MAIN) == 2)
    assert [(one.payload, one.crash_count) for one in queue.peek(9)] == [(b"b", 0), (b"a", 1)]


@pytest.mark.parametrize("code", [3, "no disk"])
def test_an_exit_with_an_error_fails_the_item(worker: Worker, queue: BlockingQueue, code: int | str) -> None:
    queue.set_policy(retrying_at_once(requeue_limit=1))
    queue.enqueue("a")
    for _ in range(2):
        (item,) = worker.claim(wait=0)
        with pytest.raises(SystemExit), item:
            sys.exit(code)
    (failed,) = queue.failed_items(9)
    assert failed.item.last_error == f"the program ended itself: SystemExit: {code}"


@pytest.mark.parametrize("code", [None, 0])
def test_an_exit_without_an_error_is_no_failure(
    worker: Worker, queue: BlockingQueue, code: int | None
) -> None:
    queue.enqueue("a")
    (item,) = worker.claim(wait=0)
    with pytest.raises(SystemExit), item:
        sys.exit(code)
    assert counts(queue) == (0, 0, 1)


def test_an_exit_after_a_stop_is_no_failure(worker: Worker, queue: BlockingQueue) -> None:
    queue.enqueue("a")
    (item,) = worker.claim(wait=0)
    worker.stop()
    with pytest.raises(SystemExit), item:
        sys.exit(3)
    assert counts(queue) == (0, 0, 1)


def test_an_exit_in_a_drain_is_no_failure(sidecar: Sidecar, worker: Worker, queue: BlockingQueue) -> None:
    queue.enqueue("a")
    (item,) = worker.claim(wait=0)
    sidecar.running.send(signal.SIGTERM)
    eventually_sync(lambda: worker.draining)
    with pytest.raises(SystemExit), item:
        sys.exit(3)
    assert counts(queue) == (0, 0, 1)


def test_an_exit_outside_a_block_counts_what_is_in_flight(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue("a")

    def work() -> None:
        with claimq.worker.connect(sidecar.socket) as worker:
            worker.claim(wait=0)
            sys.exit(3)

    with pytest.raises(SystemExit):
        work()
    eventually_sync(lambda: queue.length(State.MAIN) == 1)
    assert counts(queue) == (0, 1, 0)


def test_an_exit_outside_a_block_after_a_stop_is_no_failure(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue("a")

    def work() -> None:
        with claimq.worker.connect(sidecar.socket) as worker:
            worker.claim(wait=0)
            worker.stop()
            sys.exit(3)

    with pytest.raises(SystemExit):
        work()
    assert counts(queue) == (0, 0, 1)


def test_work_that_waits_for_something_cancelled_has_failed(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue("a")

    async def work() -> None:
        async with claimq.worker.connect_async(sidecar.socket) as worker:
            cancelled = asyncio.get_running_loop().create_future()
            cancelled.cancel()
            (item,) = await worker.claim(wait=0)
            async with item:
                await cancelled

    asyncio.run(work())
    assert counts(queue) == (1, 0, 0)


Claims = Callable[[Sidecar], None]


def _claims(sidecar: Sidecar) -> None:
    with claimq.worker.connect(sidecar.socket) as worker:
        worker.claim(wait=0)
        for _ in range(2):
            worker.claim(wait=0.01)


def _claims_async(sidecar: Sidecar) -> None:
    async def main() -> None:
        async with claimq.worker.connect_async(sidecar.socket) as worker:
            await worker.claim(wait=0)
            for _ in range(2):
                await worker.claim(wait=0.01)

    asyncio.run(main())


@pytest.mark.parametrize("claims", [_claims, _claims_async])
def test_a_claim_that_may_wait_for_its_own_caller_says_so_once(
    sidecar: Sidecar, queue: BlockingQueue, claims: Claims, caplog: pytest.LogCaptureFixture
) -> None:
    queue.enqueue("a", id="forgotten")
    with caplog.at_level(logging.WARNING, "claimq.worker"):
        claims(sidecar)
    (line,) = [one.getMessage() for one in caplog.records if "waits for itself" in one.getMessage()]
    assert "its caller still holds 1 without a verdict (forgotten)" in line


def test_an_item_that_a_renewal_found_lost_needs_no_verdict(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue("a", id="a")
    with claimq.worker.connect(sidecar.socket, patience=0.3) as worker:
        (item,) = worker.claim(wait=0)
        with item:
            queue.drop(item.token, "removed")
            assert item.renew().is_lost
            sidecar.kill9()
        assert item.outcome is not None
        assert item.outcome.is_lost
        assert worker.in_flight == []
