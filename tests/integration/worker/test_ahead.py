"""Quick loops over `worker.items()` claim ahead: what holds when the app stands still, has many loops, or uses keys."""

import asyncio
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import claimq.worker
from claimq.blocking import BlockingQueue
from claimq.model import NewItem, State
from claimq.policy import Policy
from claimq.worker import AsyncWorker, SidecarUnavailable, Worker, wire
from testkit.plugin import ServerFactory
from testkit.programs.processes import Process
from testkit.queues.looking import is_empty
from testkit.servers.server import Server
from testkit.waiting import eventually_sync
from testkit.workers.sidecars import Sidecar, StartSidecar

STOPS_ITSELF = """
import fcntl, glob, os, signal, termios, claimq.worker, claimq.worker.loops.loop
from claimq.consuming.engine import chunk_size
claimq.worker.loops.loop._QUICK_SECONDS = 1e9
claimq.worker.loops.loop._SHORT_SECONDS = chunk_size.AHEAD_SECONDS = 1e9
with claimq.worker.connect() as worker:
    (path,) = glob.glob(os.environ["CLAIMQ_SOCKET"] + ".*")
    fifo, stops = os.open(path, os.O_RDONLY | os.O_NONBLOCK), True
    for item in worker.items():
        with item:
            os.write(1, f"{item.text}\\n".encode())
            if stops and int(item.text) >= 40 and any(fcntl.ioctl(fifo, termios.FIONREAD, bytes(4))):
                stops = False
                os.write(1, b"stops\\n")
                os.kill(os.getpid(), signal.SIGSTOP)
"""

LEAVES_A_FORK = """
import os, signal, sys, claimq.worker, claimq.worker.loops.loop
claimq.worker.loops.loop._QUICK_SECONDS = claimq.worker.loops.loop._SHORT_SECONDS = 1e9
with claimq.worker.connect() as worker:
    for item in worker.items():
        with item:
            if item.text == "50":
                child = os.fork()
                if child == 0:
                    signal.alarm(20)
                    sys.exit(7)
                os.write(1, b"ended %d\\n" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
                worker.stop()
"""


class Record:
    """What blocks have seen, and how many were in progress together."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.busy: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self._lock = threading.Lock()

    def note(self, text: str, key: str = "") -> None:
        """In a block."""
        with self._lock:
            self.seen[text] += 1
            self.busy[key] += 1
            self.most[key] = max(self.most[key], self.busy[key])
        time.sleep(0.0002)  # the work, in which other threads run
        with self._lock:
            self.busy[key] -= 1

    def loop(self, worker: Worker) -> None:
        """Until the worker is stopped."""
        for item in worker.items(handle_signals=False):
            with item:
                self.note(item.text, item.key or "")


def run(record: Record, queue: BlockingQueue, workers: Sequence[Worker], loops: int) -> None:
    """Runs so many loops of each worker until nothing is left in the queue."""
    with ThreadPoolExecutor(loops * len(workers)) as threads:
        running = [threads.submit(record.loop, worker) for worker in workers for _ in range(loops)]
        eventually_sync(lambda: is_empty(queue))
        for worker in workers:
            worker.stop()
        for loop in running:
            loop.result()


def open_fifos(sidecar: Sidecar) -> int:
    """Descriptors of this process for FIFOs beside the sidecar's socket, also of removed ones."""
    targets = [str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    return sum(target.startswith(f"{sidecar.socket}.") for target in targets)


@pytest.fixture
def worker(sidecar: Sidecar) -> Iterator[Worker]:
    with claimq.worker.connect(sidecar.socket) as made:
        yield made


def test_an_app_that_stands_still_for_longer_than_its_lease_begins_no_item_again(
    valkey: Server, queue: BlockingQueue, sidecar: Sidecar, tmp_path: Path
) -> None:
    queue.set_policy(Policy(busy_expiry=6.0))
    queue.enqueue_many(str(number) for number in range(300))
    log, here = tmp_path / "log", Counter[str]()
    app = Process([sys.executable, "-c", STOPS_ITSELF], log=log, env={"CLAIMQ_SOCKET": str(sidecar.socket)})
    eventually_sync(lambda: "stops" in log.read_text().split(), why="it stands still with items ahead")
    stopped_at = queue.snapshot().now
    eventually_sync(lambda: sidecar.info["in_flight"] == queue.length(State.BUSY), why="the rest goes back")
    assert sidecar.metric('claimq_sidecar_given_back_items_total{cause="not_reached"}') > 0
    assert queue.length(State.MAIN) > 0
    with Sidecar(valkey.url, worker="other") as other, claimq.worker.connect(other.socket) as worker:
        for item in worker.items(handle_signals=False):
            with item:
                here[item.text] += 1
            if queue.length(State.MAIN) <= 50:
                break
    eventually_sync(lambda: queue.snapshot().now > stopped_at + 15)
    app.sigcont()
    eventually_sync(lambda: is_empty(queue))
    app.kill9()
    begun = Counter(log.read_text().replace("stops\n", "").split()) + here
    assert begun == Counter(str(number) for number in range(300))


@pytest.mark.usefixtures("every_loop_is_quick")
def test_two_items_of_one_key_are_never_in_progress_together(
    valkey: Server, queue: BlockingQueue, sidecar: Sidecar
) -> None:
    queue.enqueue_many(NewItem(str(number), key=f"key-{number % 3}") for number in range(240))
    record = Record()
    with (
        Sidecar(valkey.url, worker="other") as other,
        claimq.worker.connect(sidecar.socket) as one,
        claimq.worker.connect(other.socket) as two,
    ):
        run(record, queue, [one, two], 4)
    assert record.most == {"key-0": 1, "key-1": 1, "key-2": 1}
    assert record.seen == Counter(str(number) for number in range(240))


@pytest.mark.parametrize("concurrency", ["50", "3", None])
def test_fifty_threads_begin_each_item_once(
    valkey: Server,
    queue: BlockingQueue,
    start_sidecar: StartSidecar,
    concurrency: str | None,
) -> None:
    settings = {} if concurrency is None else {"concurrency": concurrency}
    sidecar = start_sidecar(valkey.url, **settings)
    queue.enqueue_many(str(number) for number in range(3000))
    record = Record()
    with claimq.worker.connect(sidecar.socket) as worker:
        run(record, queue, [worker], 50)
    assert record.seen == Counter(str(number) for number in range(3000))
    assert record.most[""] <= int(concurrency or 50)
    assert queue.stats()["done"] == 3000


@pytest.mark.usefixtures("every_loop_is_quick")
def test_a_policy_of_durable_verdicts_holds_from_the_next_request(
    valkey: Server, worker: Worker, queue: BlockingQueue, start_server: ServerFactory
) -> None:
    start_server("valkey", {"replicaof": f"127.0.0.1 {valkey.port}"})
    eventually_sync(lambda: valkey.call("WAIT", 1, 100) == 1)
    queue.enqueue_many(str(number) for number in range(300))
    has_outcome: set[bool] = set()
    for number, item in enumerate(worker.items(wait=0), 1):
        with item:
            if number == 100:
                queue.update_policy(durability="replicated", durable_done=True)
        if number > 200:
            has_outcome.add(item.outcome is not None)
        if number == 250:
            break
    assert has_outcome == {True}


def test_a_directory_without_room_for_a_fifo_costs_the_speed_alone(
    sidecar: Sidecar, queue: BlockingQueue, tmp_path: Path
) -> None:
    queue.enqueue_many(str(number) for number in range(50))
    shutil.move(
        sidecar.socket.parent, tmp_path / "elsewhere"
    )  # where the sidecar makes its FIFOs is no directory
    record = Record()
    with claimq.worker.connect(tmp_path / "elsewhere" / sidecar.socket.name) as worker:
        run(record, queue, [worker], 1)
    shutil.move(tmp_path / "elsewhere", sidecar.socket.parent)
    assert record.seen == Counter(str(number) for number in range(50))
    assert "event=no_permits" in sidecar.log.read_text()
    assert queue.stats()["done"] == 50


@pytest.mark.usefixtures("every_loop_is_quick")
async def test_loops_whose_background_task_ends_get_an_error_at_once(
    sidecar: Sidecar, queue: BlockingQueue
) -> None:
    queue.enqueue_many(str(number) for number in range(100))

    async def loop(worker: AsyncWorker) -> None:
        async for item in worker.items():
            async with item:
                for task in asyncio.all_tasks():
                    if "Verdicts._run" in repr(task):
                        task.cancel()

    async with claimq.worker.connect_async(sidecar.socket) as worker:
        with pytest.raises(SidecarUnavailable, match="may not have been sent"):
            await loop(worker)


@pytest.mark.usefixtures("every_loop_is_quick")
def test_a_block_that_ends_after_the_worker_was_closed_gets_an_error(
    worker: Worker, queue: BlockingQueue
) -> None:
    queue.enqueue_many(str(number) for number in range(100))

    def loop() -> None:
        for item in worker.items():
            with item:
                if item.text == "50":
                    worker.close()

    with pytest.raises(SidecarUnavailable, match="this worker is closed"):
        loop()


def test_the_child_of_a_fork_leaves_a_loop_without_waiting(
    sidecar: Sidecar, queue: BlockingQueue, tmp_path: Path
) -> None:
    queue.enqueue_many(str(number) for number in range(100))
    log = tmp_path / "log"
    env = {"CLAIMQ_SOCKET": str(sidecar.socket)}
    assert Process([sys.executable, "-c", LEAVES_A_FORK], log=log, env=env).wait() == 0
    assert "ended 7\n" in log.read_text()
    assert queue.stats()["done"] == 51


@pytest.mark.usefixtures("every_loop_is_quick")
async def test_more_loops_than_one_request_may_name_claim_ahead(
    sidecar: Sidecar, queue: BlockingQueue
) -> None:
    count = wire.MOST + 1
    queue.enqueue_many(str(number) for number in range(2 * count))
    seen = Counter[str]()

    async def loop(worker: AsyncWorker) -> None:
        async for item in worker.items(handle_signals=False):
            async with item:
                seen[item.text] += 1
            if len(seen) == 2 * count:
                worker.stop()

    async with claimq.worker.connect_async(sidecar.socket) as worker:
        await asyncio.gather(*(loop(worker) for _ in range(count)))
    assert seen == Counter(str(number) for number in range(2 * count))


async def test_a_closed_worker_leaves_no_descriptor_open(sidecar: Sidecar) -> None:
    async with claimq.worker.connect_async(sidecar.socket):
        assert open_fifos(sidecar) == 1
    assert open_fifos(sidecar) == 0
