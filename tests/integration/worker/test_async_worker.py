"""The client for event loops, against a real sidecar and a real store."""

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator

import pytest

import claimq.worker
from claimq.blocking import BlockingQueue
from claimq.model import State
from claimq.worker import AsyncWorker
from testkit.waiting import PATIENCE, eventually
from testkit.workers.sidecars import Sidecar

pytestmark = pytest.mark.usefixtures("retries_at_once")


@pytest.fixture
async def worker(sidecar: Sidecar) -> AsyncIterator[AsyncWorker]:
    async with claimq.worker.connect_async(sidecar.socket) as made:
        yield made


async def test_a_block_ends_in_done_or_fail(worker: AsyncWorker, queue: BlockingQueue) -> None:
    queue.enqueue_many(["good", "bad"])
    good, bad = await worker.claim(2, wait=0)
    async with good:
        pass
    async with bad:
        raise ValueError("cannot")
    (back,) = queue.peek(2)
    assert (back.payload, back.last_error) == (b"bad", "ValueError: cannot")
    assert (back.error_detail or "").endswith("in test_a_block_ends_in_done_or_fail")


async def test_cancelling_the_work_gives_the_item_back_uncounted(
    worker: AsyncWorker, queue: BlockingQueue
) -> None:
    queue.enqueue("a")
    (item,) = await worker.claim(wait=0)
    began = asyncio.Event()

    async def work() -> None:
        async with item:
            began.set()
            await asyncio.sleep(60)

    working = asyncio.ensure_future(work())
    await began.wait()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    (back,) = queue.peek(1)
    assert (back.fail_count, back.crash_count, back.interrupted_count) == (0, 0, 1)


async def test_a_cancelled_claim_takes_nothing(
    worker: AsyncWorker, queue: BlockingQueue, sidecar: Sidecar
) -> None:
    for pause in (0.0, 0.001, 0.003, 0.01, 0.05):
        claiming = asyncio.ensure_future(worker.claim(wait=60))
        await asyncio.sleep(pause)
        claiming.cancel()
        queue.enqueue("x")
        await asyncio.wait({claiming})
        if not claiming.cancelled():  # it was faster, and what it got is its caller's
            await worker.unclaim(claiming.result())
    await eventually(lambda: queue.length(State.MAIN) == 5)


async def test_a_claim_cancelled_as_its_item_arrives_takes_nothing(
    worker: AsyncWorker, queue: BlockingQueue
) -> None:
    queue.enqueue("x")
    arrived = cancelled = 0
    while min(arrived, cancelled) < 150:
        claiming = asyncio.ensure_future(worker.claim(wait=0))
        # Fewer turns of the event loop after one that was too late, more after one that was too early.
        for _ in range(max(0, 40 + 3 * (cancelled - arrived) + random.randrange(-20, 20))):
            await asyncio.sleep(0)
        claiming.cancel()
        await asyncio.wait({claiming})
        if claiming.cancelled():
            cancelled += 1
        else:
            arrived += 1
            await worker.unclaim(claiming.result())
        await eventually(lambda: queue.length(State.MAIN) == 1)


async def test_a_stop_ends_the_loop_while_it_waits(worker: AsyncWorker) -> None:
    asyncio.get_running_loop().call_later(0.1, worker.stop)
    async with asyncio.timeout(PATIENCE):
        assert [item async for item in worker.items(wait=60)] == []


async def test_signals_mean_what_they_meant_before_when_the_loop_is_over(
    worker: AsyncWorker, queue: BlockingQueue
) -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    queue.enqueue("a")
    async for item in worker.items():
        async with item:
            os.kill(os.getpid(), signal.SIGINT)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


async def test_a_cancellation_while_items_go_back_leaves_no_session_open(
    sidecar: Sidecar, queue: BlockingQueue
) -> None:
    queue.enqueue("a")
    is_leaving = asyncio.Event()

    async def work() -> None:
        async with claimq.worker.connect_async(sidecar.socket) as worker:
            await worker.claim(wait=0)
            sidecar.running.send(signal.SIGSTOP)
            is_leaving.set()

    working = asyncio.ensure_future(work())
    await is_leaving.wait()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    sidecar.running.send(signal.SIGCONT)
    await eventually(lambda: asyncio.all_tasks() == {asyncio.current_task()})
    assert queue.length(State.MAIN) == 1
    assert queue.peek(1)[0].crash_count == 0
