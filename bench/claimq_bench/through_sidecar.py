"""The same work through the sidecar: its process, its socket, and an app in a process of its own with claimq.worker."""

import asyncio
import multiprocessing
import os
import shutil
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import claimq
from claimq_bench.meter import Bed, Spread, must
from claimq_bench.rivals import new_payloads
from testkit.places import new_directory
from testkit.processes import Process
from testkit.server import free_port

SIZE = 100
ROUNDS = 3
SINGLY_SHARE = 10
"""One by one a tenth as many items go through as in batches."""
ROUND_TRIPS = 1_000
LONGEST_START = 20.0
LONGEST_APP = 300.0
IDLE_SECONDS = 1.0


@dataclass(frozen=True)
class Found:
    """Items per second that the app finished (claim and done); memory in MB; seconds from start to ready.

    `singly_vs_round_trips`: items one by one to single calls of the library to the same server.
    """

    batches: Spread
    singly: Spread
    singly_vs_round_trips: Spread
    idle_rss_mb: float
    loaded_rss_mb: float
    ready: Spread


class Sidecar:
    """A sidecar of the benchmark's own, ready when made."""

    def __init__(self, bed: Bed, queue: str) -> None:
        self.directory = new_directory()
        self.socket = self.directory / "claimq.sock"
        port = free_port()
        environment = {
            "CLAIMQ_REDIS_URL": bed.url,
            "CLAIMQ_QUEUE": queue,
            "CLAIMQ_SOCKET": str(self.socket),
            "CLAIMQ_HEALTH_PORT": str(port),
            "CLAIMQ_LOG_LEVEL": "warn",
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
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) * 1024 / 1e6

    def close(self) -> None:
        self.process.terminate()
        shutil.rmtree(self.directory, ignore_errors=True)


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def work(socket: str, batch: int, count: int, results: Connection) -> None:
    """The app: claims and completes batches until it has had `count` items; sends them and the time.

    One by one it does so in the natural loop.
    """
    os.environ["CLAIMQ_SOCKET"] = socket
    import claimq.worker

    took: list[bytes] = []
    with claimq.worker.connect() as worker:
        start = time.perf_counter()
        if batch == 1:
            for item in worker.items():
                with item:
                    took.append(item.payload)
                if len(took) == count:
                    break
        while len(took) < count:
            items = worker.claim(max=batch, wait=5)
            if not items:
                break
            worker.done(items)
            took += [item.payload for item in items]
        seconds = time.perf_counter() - start
    results.send((took, seconds))


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
        batches = [await _through(bed, sidecar, 100, items) for _ in range(ROUNDS)]
        singly: list[float] = []
        ratios: list[float] = []
        for _ in range(ROUNDS):
            round_trips = await _round_trips(bed)
            singly.append(await _through(bed, sidecar, 1, items // SINGLY_SHARE))
            ratios.append(singly[-1] / round_trips)
        loaded = sidecar.rss_mb()
    finally:
        sidecar.close()
    bed.empty()
    return Found(Spread.of(batches), Spread.of(singly), Spread.of(ratios), idle, loaded, Spread.of(ready))


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


async def _through(bed: Bed, sidecar: Sidecar, batch: int, count: int) -> float:
    payloads = [b'{"n": "%s"}' % payload for payload in new_payloads(count, SIZE - 9)]
    async with claimq.connect(bed.url) as server:
        queue = server.queue("socket", worker="producer")
        await queue.enqueue_many(payloads)
        spawning = multiprocessing.get_context("spawn")
        ours, theirs = spawning.Pipe()
        app = spawning.Process(target=work, args=(str(sidecar.socket), batch, count, theirs), daemon=True)
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
        must(took == payloads, f"through the socket: {count} items went in, others came out")
        must(sum((await queue.lengths()).values()) == 0, "through the socket: items are left over")
    return count / float(seconds)
