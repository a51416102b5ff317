"""The natural loop: the end of a block also claims the next item, and means what it meant without that."""

import asyncio
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import claimq.worker
from claimq.blocking import BlockingQueue
from claimq.model import State
from claimq.worker import Item, Worker
from testkit.programs.processes import Process
from testkit.queues.looking import is_empty
from testkit.waiting import PATIENCE, eventually_sync
from testkit.workers.sidecars import Sidecar
from testkit.workers.step_gate import Gate

pytestmark = pytest.mark.usefixtures("retries_at_once")


def requests(sidecar: Sidecar, path: str) -> int:
    return int(sidecar.metric(f'claimq_sidecar_request_seconds_count{{path="{path}",status="200"}}'))


@pytest.mark.usefixtures("every_loop_is_quick")
def test_a_quick_loop_claims_many_items_with_one_request(
    worker: Worker, sidecar: Sidecar, queue: BlockingQueue
) -> None:
    queue.enqueue_many(str(number) for number in range(400))
    items: list[Item] = []
    for item in worker.items(wait=0):
        with item:
            items.append(item)
        if len(items) == 400:
            break
    assert [item.text for item in items] == [str(number) for number in range(400)]
    assert {item.outcome.verdict.value for item in items if item.outcome} == {"done"}
    assert all(item.outcome for item in items)
    assert requests(sidecar, "/v1/next") + requests(sidecar, "/v1/claim") < 60
    assert is_empty(queue)


@pytest.mark.usefixtures("every_loop_is_quick")
def test_an_item_that_has_crashed_a_worker_begins_after_the_verdicts_before_it(
    worker: Worker, queue: BlockingQueue
) -> None:
    queue.enqueue("crashes")
    claims = queue.claim(wait=0)
    queue.enqueue_many(str(number) for number in range(50))
    queue.crash(claims, "exit code 1")
    done: list[int] = []
    for item in worker.items(wait=0):
        with item:
            if item.crash_count:
                done.append(queue.stats()["done"])
                worker.stop()
    assert done == [50]


def test_a_loop_with_slow_code_behind_its_blocks_holds_no_item_there(
    worker: Worker, sidecar: Sidecar, queue: BlockingQueue
) -> None:
    queue.enqueue_many(["a", "b", "c"])
    busy: list[int] = []
    for item in worker.items():
        with item:
            pass
        time.sleep(0.02)
        busy.append(queue.length(State.BUSY))
        if len(busy) == 3:
            break
    assert busy == [0, 0, 0]
    assert requests(sidecar, "/v1/next") == 0


def test_what_a_loop_that_ends_has_claimed_goes_back_uncounted(worker: Worker, queue: BlockingQueue) -> None:
    queue.enqueue_many(str(number) for number in range(8))
    seen = 0
    for item in worker.items():
        with item:
            seen += 1
        if seen == 5:
            break
    assert worker.in_flight == []
    waiting = queue.peek(9)
    assert [item.payload for item in waiting] == [b"5", b"6", b"7"]
    assert [(item.requeue_count, item.crash_count) for item in waiting] == [(0, 0)] * 3


def test_a_failure_and_a_verdict_of_ones_own_mean_what_they_mean(
    worker: Worker, queue: BlockingQueue
) -> None:
    queue.enqueue_many(["a", "b", "bad", "own", "c", "d"])
    seen: list[str] = []
    for item in worker.items():
        with item:
            seen.append(item.text)
            if item.text == "bad":
                raise ValueError("broken")
            if item.text == "own":
                item.requeue(delay=60)
        if item.text == "d":
            break
    assert seen == ["a", "b", "bad", "own", "c", "d"]
    assert queue.lengths() == {State.MAIN: 1, State.BUSY: 0, State.DELAYED: 1, State.FAILED: 0}
    (failed,) = queue.peek(2)
    assert (failed.payload, failed.last_error, failed.fail_count) == (b"bad", "ValueError: broken", 1)
    assert "test_loop.py" in (failed.error_detail or "")


def test_a_lost_item_does_not_keep_the_loop_from_the_next_one(
    worker: Worker, sidecar: Sidecar, queue: BlockingQueue
) -> None:
    queue.enqueue_many(["a", "b", "c", "d"])
    items: list[Item] = []
    for item in worker.items():
        with item:
            items.append(item)
            if item.text == "c":
                queue.done(item.token)
        if item.text == "d":
            break
    outcomes = {item.text: item.outcome.verdict.value for item in items if item.outcome}
    assert outcomes == {"a": "done", "b": "done", "c": "lost", "d": "done"}


def test_items_that_other_threads_end_are_not_claimed_ahead(
    worker: Worker, sidecar: Sidecar, queue: BlockingQueue
) -> None:
    queue.enqueue_many(str(number) for number in range(12))

    def work(item: Item) -> None:
        with item:
            pass

    seen = 0
    with ThreadPoolExecutor(2) as pool:
        for item in worker.items(settle_elsewhere=True):
            pool.submit(work, item)
            seen += 1
            if seen == 12:
                break
    assert requests(sidecar, "/v1/next") == 0
    assert is_empty(queue)


def test_an_event_loop_has_the_same_loop(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue_many(str(number) for number in range(20))

    async def work() -> list[str]:
        seen: list[str] = []
        async with claimq.worker.connect_async(sidecar.socket) as worker:
            async for item in worker.items(handle_signals=False):
                async with item:
                    seen.append(item.text)
                if len(seen) == 10:
                    break
        return seen

    assert asyncio.run(work()) == [str(number) for number in range(10)]
    assert requests(sidecar, "/v1/next") > 1
    assert [item.payload for item in queue.peek(20)] == [b"%d" % number for number in range(10, 20)]
    assert {item.crash_count for item in queue.peek(20)} == {0}


LOOP = """
import claimq.worker, signal, time
with claimq.worker.connect() as worker:
    for item in worker.items(wait=60):
        with item:
            print(item.text, flush=True)
            until = time.monotonic() + (60 if item.text == "5" else 0)
            while signal.getsignal(signal.SIGTERM) != signal.SIG_DFL and time.monotonic() < until:
                time.sleep(0.01)  # until the signal has been taken
    print("ended", flush=True)
"""


@pytest.fixture
def app(sidecar: Sidecar, queue: BlockingQueue, tmp_path: Path) -> Process:
    """A program that works on the sixth of nine items until it is asked to end."""
    queue.enqueue_many(str(number) for number in range(9))
    log = tmp_path / "log"
    app = Process([sys.executable, "-c", LOOP], log=log, env={"CLAIMQ_SOCKET": str(sidecar.socket)})
    eventually_sync(lambda: log.exists() and "5" in log.read_text())
    return app


def test_sigterm_in_a_quick_loop_ends_it_after_the_item_in_flight(
    app: Process, queue: BlockingQueue, tmp_path: Path
) -> None:
    app.send(signal.SIGTERM)
    assert app.wait() == 0
    assert (tmp_path / "log").read_text().split() == ["0", "1", "2", "3", "4", "5", "ended"]
    assert [item.payload for item in queue.peek(9)] == [b"6", b"7", b"8"]
    assert [item.crash_count for item in queue.peek(9)] == [0, 0, 0]
    assert queue.length(State.BUSY) == 0


def test_a_kill_in_a_quick_loop_counts_for_the_item_in_flight_alone(
    app: Process, queue: BlockingQueue
) -> None:
    app.kill9()
    eventually_sync(lambda: queue.lengths()[State.MAIN] == 4)
    assert {item.payload: item.crash_count for item in queue.peek(9)} == {b"5": 1, b"6": 0, b"7": 0, b"8": 0}


def test_a_loop_ends_that_learns_of_a_drain_after_the_end_of_its_sidecar(
    gate: Gate, sidecar: Sidecar, queue: BlockingQueue
) -> None:
    queue.enqueue("a")
    gate.announces_drains.clear()
    with claimq.worker.connect(gate.path, patience=2 * PATIENCE) as worker:

        def has_ended() -> bool:
            return sidecar.running.returncode == 0

        def work() -> None:
            for item in worker.items():
                with item:
                    sidecar.begin_drain()
                eventually_sync(has_ended)

        loop = threading.Thread(target=work, daemon=True)
        loop.start()
        eventually_sync(has_ended)
        before = gate.connections
        eventually_sync(lambda: gate.connections > before + 1, why="the loop tries to claim again")
        gate.announces_drains.set()
        eventually_sync(lambda: not loop.is_alive(), why="the loop ends")


def test_a_loop_outlives_a_killed_sidecar(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue_many(str(number) for number in range(40))
    seen: list[str] = []
    with claimq.worker.connect(sidecar.socket) as worker:
        for item in worker.items(wait=0.5, handle_signals=False):
            with item:
                seen.append(item.text)
                if len(seen) in {10, 20}:
                    sidecar.kill9()
                    sidecar.start()
            if item.text == "39":
                break
        assert worker.in_flight == []
    assert sorted(set(seen), key=int) == [str(number) for number in range(40)]
    assert len(seen) == 40
    assert is_empty(queue)
