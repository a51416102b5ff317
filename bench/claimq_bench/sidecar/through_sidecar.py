"""The same work through the sidecar: its process, its socket, and an app in a process of its own with claimq.worker."""

import asyncio
import multiprocessing
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Literal

import claimq
import claimq.worker
from claimq.redis_store.keys import Keys
from claimq_bench.calls.consuming import of_lists
from claimq_bench.figures import Figure, Report
from claimq_bench.meter import Bed, Spread, cpu_seconds, must, ratios, rss_mb
from claimq_bench.plan import Plan
from claimq_bench.rivals import Lists, new_payloads
from testkit.programs.places import new_directory
from testkit.programs.ports import free_port
from testkit.programs.processes import Process

HERE = Path(__file__).parent
SIZE = 100
ROUNDS = 3
CONCURRENT = 50
ROUND_TRIPS = 1_000
LONGEST_START = 20.0
LONGEST_APP = 300.0
_POLL = 0.01
IDLE_SECONDS = 1.0


@dataclass(frozen=True)
class Rates:
    """Items per second, their ratio to single calls of the library to the same server, and microseconds of processor
    time for an item, of the process that serves the socket."""

    items: Spread
    vs_round_trips: Spread
    cpu_us: Spread

    @classmethod
    def of(cls, rounds: Sequence[tuple[float, float]], round_trips: Sequence[float]) -> "Rates":
        items, costs = zip(*rounds, strict=True)
        return cls(Spread.of(items), ratios(items, round_trips, float), Spread.of(costs))


@dataclass(frozen=True)
class Found:
    """Items per second that the app finished (claim and done); memory in MB; seconds from start to ready.

    `loop`, `threads`, `tasks`: items one by one, in one loop and in 50. `loop_vs_lists`: the loop to lists in
    pipelines of 100.
    """

    batches: Spread
    loop: Rates
    loop_vs_lists: Spread
    threads: Rates
    tasks: Rates
    idle_rss_mb: float
    loaded_rss_mb: float
    ready: Spread


class Sidecar:
    """A sidecar of the benchmark's own, ready when made."""

    def __init__(self, bed: Bed, queue: str, **settings: str) -> None:
        """`settings`: further environment variables."""
        self.queue = queue
        self.directory = new_directory()
        self.socket = self.directory / "claimq.sock"
        port = free_port()
        environment = {
            "CLAIMQ_REDIS_URL": bed.url,
            "CLAIMQ_QUEUE": queue,
            "CLAIMQ_SOCKET": str(self.socket),
            "CLAIMQ_HEALTH_PORT": str(port),
            "CLAIMQ_LOG_LEVEL": "warn",
            **settings,
        }
        self.log = self.directory / "log"
        start = time.perf_counter()
        self.process = Process([sys.executable, "-m", "claimq_sidecar"], log=self.log, env=environment)
        while not _is_ready(port):
            if not self.process.is_running or time.perf_counter() - start > LONGEST_START:
                words = self.log.read_text(errors="replace")[-2000:]
                self.close()
                must(False, f"the sidecar does not become ready:\n{words}")
            time.sleep(0.005)
        self.seconds_to_ready = time.perf_counter() - start

    def rss_mb(self) -> float:
        return rss_mb(self.process.pid)

    def cpu_seconds(self) -> float:
        return cpu_seconds(self.process.pid)

    def close(self) -> None:
        self.process.terminate()
        shutil.rmtree(self.directory, ignore_errors=True)


def uvicorn_command(socket: Path, app: str) -> list[str | Path]:
    """The command that serves an app of the benchmark on a socket, with asyncio and httptools as the sidecar."""
    how = ["--loop", "asyncio", "--http", "httptools", "--log-level", "warning"]
    return [sys.executable, "-m", "uvicorn", *how, "--uds", socket, "--app-dir", HERE.parents[1], app]


def go_command(app: str, folder: Path) -> list[str | Path]:
    """Builds an app of the benchmark that is written in Go, NAME.go, into a folder; returns what starts it."""
    build: list[str | Path] = ["go", "build", "-o", folder / "app", HERE / f"{app}.go"]
    subprocess.run(build, check=True, env={**os.environ, "GO111MODULE": "off"})
    return [folder / "app"]


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


Way = int | Literal["threads", "tasks"]
"""How the app takes items: in batches of so many (1: in the natural loop), or in CONCURRENT such loops."""


def work(socket: str, way: Way, count: int, results: Connection) -> None:
    """The app: claims and completes items until it has had `count`; sends them and the time."""
    os.environ["CLAIMQ_SOCKET"] = socket
    took: list[bytes] = []
    if way == "tasks":
        seconds = asyncio.run(_in_tasks(took, count))
    else:
        with claimq.worker.connect() as worker:
            start = time.perf_counter()
            if way == "threads":
                _in_threads(worker, took, count)
            elif way == 1:
                _loop(worker, took, count)
            else:
                _in_batches(worker, took, way, count)
            seconds = time.perf_counter() - start
    results.send((took, seconds))


def _loop(worker: claimq.worker.Worker, took: list[bytes], count: int) -> None:
    for item in worker.items():
        with item:
            took.append(item.payload)
        if len(took) >= count:
            worker.stop()


def _in_threads(worker: claimq.worker.Worker, took: list[bytes], count: int) -> None:
    with ThreadPoolExecutor(CONCURRENT) as pool:
        for loop in [pool.submit(_loop, worker, took, count) for _ in range(CONCURRENT)]:
            loop.result()


async def _in_tasks(took: list[bytes], count: int) -> float:
    async def loop(worker: claimq.worker.AsyncWorker) -> None:
        async for item in worker.items():
            async with item:
                took.append(item.payload)
            if len(took) >= count:
                worker.stop()

    async with claimq.worker.connect_async() as worker:
        start = time.perf_counter()
        await asyncio.gather(*(loop(worker) for _ in range(CONCURRENT)))
        return time.perf_counter() - start


def _in_batches(worker: claimq.worker.Worker, took: list[bytes], batch: int, count: int) -> None:
    while len(took) < count and (items := worker.claim(max=batch, wait=5)):
        worker.done(items)
        took += [item.payload for item in items]


async def report(to: Report, bed: Bed, plan: Plan) -> None:
    """All figures of requests through the sidecar."""
    to.heading("Through the sidecar's socket, to one Python app with claimq.worker")
    found = await measure(bed, items=plan.sidecar_items, starts=plan.sidecar_starts)
    cpu = "Python's time in the sidecar and in the app: JSON, HTTP, and the library's call"
    to.of_rounds(
        "socket_items_per_second_b100", "batches of 100", found.batches, unit="/s", least=20_000, limit=cpu
    )
    to.of_rounds("worker_items_default_per_second", "one by one, in a loop", found.loop.items, unit="/s")
    to.of_rounds(
        "worker_items_default_vs_lists_b100",
        "the same, to lists in pipelines of 100",
        found.loop_vs_lists,
        least=0.16,
        limit=cpu,
    )
    to.of_rounds(
        "worker_items_default_sidecar_us_per_item",
        "processor time of the sidecar",
        found.loop.cpu_us,
        unit="us",
    )
    for name, says, rates, least in (
        ("concurrent_50", "one by one in 50 threads", found.threads, 3.8),
        ("concurrent_50_tasks", "one by one in 50 tasks", found.tasks, 3.8),
    ):
        to.of_rounds(f"socket_items_per_second_{name}", says, rates.items, unit="/s")
        to.of_rounds(
            f"socket_{name}_vs_library_round_trip",
            "the same, to single calls of the library",
            rates.vs_round_trips,
            least=least,
            limit=cpu,
        )
        to.of_rounds(
            f"socket_sidecar_us_per_item_{name}",
            "processor time of the sidecar",
            rates.cpu_us,
            unit="us",
        )
    to.add(
        Figure(
            "sidecar_idle_rss_mb",
            "resident memory, idle",
            found.idle_rss_mb,
            "MB",
            most=40,
            limit="Python itself and its modules: bench/benchmarks.md",
        )
    )
    to.add(Figure("sidecar_rss_after_load_mb", "resident memory, after this load", found.loaded_rss_mb, "MB"))
    to.of_rounds(
        "sidecar_ready_s",
        "from start to ready",
        found.ready,
        unit="s",
        most=0.5,
        limit="starting Python and importing modules",
    )


async def measure(bed: Bed, *, items: int, starts: int) -> Found:
    """Times `starts` starts, then what the app gets through the last of them. WrongResult when items do not add up."""
    ready: list[float] = []
    for _ in range(starts - 1):
        sidecar = Sidecar(bed, "socket")
        ready.append(sidecar.seconds_to_ready)
        sidecar.close()
    sidecar = Sidecar(bed, "socket")
    ready.append(sidecar.seconds_to_ready)
    try:
        await asyncio.sleep(IDLE_SECONDS)
        idle = sidecar.rss_mb()
        batches = [(await _through(bed, sidecar, 100, items))[0] for _ in range(ROUNDS)]
        round_trips: list[float] = []
        lists_rates: list[float] = []
        one_by_one: dict[Way, list[tuple[float, float]]] = {1: [], "threads": [], "tasks": []}
        for _ in range(ROUNDS):
            round_trips.append(await _round_trips(bed))
            lists_rates.append((await of_lists(bed, Lists(bed.client()), items)).rate)
            for way, rates in one_by_one.items():
                rates.append(await _through(bed, sidecar, way, items))
        loaded = sidecar.rss_mb()
    finally:
        sidecar.close()
    bed.empty()
    loop, threads, tasks = (Rates.of(rates, round_trips) for rates in one_by_one.values())
    vs_lists = ratios([rate for rate, _ in one_by_one[1]], lists_rates, float)
    return Found(Spread.of(batches), loop, vs_lists, threads, tasks, idle, loaded, Spread.of(ready))


async def _round_trips(bed: Bed) -> float:
    """Single calls of the library to the server, one after another, in a second."""
    async with claimq.connect(bed.url) as server:
        queue = server.queue("round-trips")
        await queue.enqueue(b"first")
        start = time.perf_counter()
        for _ in range(ROUND_TRIPS):
            await queue.enqueue(b"x" * SIZE)
        seconds = time.perf_counter() - start
        await queue.flush()
        await queue.delete()
    return ROUND_TRIPS / seconds


async def _through(bed: Bed, sidecar: Sidecar, way: Way, count: int) -> tuple[float, float]:
    """Items per second, and microseconds of the sidecar's processor time for each."""
    payloads = [b'{"n": "%s"}' % payload for payload in new_payloads(count, SIZE - 9)]
    async with claimq.connect(bed.url) as server:
        queue = server.queue("socket", worker="producer")
        await queue.enqueue_many(payloads)
        used = sidecar.cpu_seconds()
        took, seconds = _run_app(sidecar.socket, way, count)
        is_right = took == payloads if isinstance(way, int) else sorted(took) == sorted(payloads)
        must(is_right, f"through the socket: {count} items went in, others came out")
        must(sum((await queue.lengths()).values()) == 0, "through the socket: items are left over")
    return count / seconds, (sidecar.cpu_seconds() - used) / count * 1e6


def _run_app(socket: Path, way: Way, count: int) -> tuple[list[bytes], float]:
    """Runs :func:`work` in a process of its own; returns its items and its time."""
    spawning = multiprocessing.get_context("spawn")
    ours, theirs = spawning.Pipe()
    app = spawning.Process(target=work, args=(str(socket), way, count, theirs), daemon=True)
    app.start()
    theirs.close()
    try:
        must(ours.poll(LONGEST_APP), "the app does not come to an end")
        took, seconds = ours.recv()
    except EOFError:
        must(False, "the app died")
        raise
    finally:
        app.join(5)
        app.kill()
    return took, float(seconds)


@dataclass(frozen=True)
class Delivery:
    """Items per second from the first claim to the last verdict, and microseconds of processor time for each: of the
    sidecar, the app and the server.
    """

    rate: float
    sidecar_us: float
    app_us: float
    server_us: float


async def delivered(bed: Bed, sidecar: Sidecar, app: Process, count: int) -> Delivery:
    """What it takes that the sidecar brings items to an app by itself. WrongResult when they do not add up."""

    def used() -> tuple[float, float, float]:
        return sidecar.cpu_seconds(), cpu_seconds(app.pid), bed.server_seconds()[0]

    stats = Keys(sidecar.queue).stats
    async with claimq.connect(bed.url) as server:
        queue = server.queue(sidecar.queue, worker="producer")
        await queue.pause()
        await queue.enqueue_many([b'{"n": "%s"}' % payload for payload in new_payloads(count, SIZE - 9)])
        done, before, start = (await queue.stats())["done"] + count, used(), time.perf_counter()
        await queue.resume()
        while int(bed.control.hget(stats, "done") or 0) < done:  # stats() would take the server a millisecond
            must(app.is_running, "the app died")
            must(time.perf_counter() - start < LONGEST_APP, "the items do not come to an end")
            await asyncio.sleep(_POLL)
        seconds, after = time.perf_counter() - start, used()
        found, left = (await queue.stats())["done"], sum((await queue.lengths()).values())
        must((found, left) == (done, 0), f"{sidecar.queue}: {found - done} items too many, {left} left over")
    return Delivery(
        count / seconds, *(1e6 / count * (end - begin) for begin, end in zip(before, after, strict=True))
    )
