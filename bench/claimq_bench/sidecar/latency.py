"""How long an item takes from the enqueue call to a worker that was waiting for it, against LPUSH and a blocked BLMOVE.

Each way has a process of its own that waits, always; this process sends to one after the other. The sender puts the
machine's monotonic clock into the payload, the receiver looks at the same clock when it has the item.
"""

import asyncio
import multiprocessing
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import redis
import redis.asyncio

import claimq
import claimq.worker
from claimq_bench.figures import Figure, Report
from claimq_bench.meter import Bed, Spread, must, wait_until
from claimq_bench.plan import Plan
from claimq_bench.sidecar.through_sidecar import Sidecar

LONGEST_WAIT = 60.0
ROUNDS = 5
_MAIN, _ASYNC_MAIN, _BUSY = "wake:main", "wake:async", "wake:busy"
BLMOVE, ASYNC_BLMOVE, CLAIM, CONSUME, SOCKET = "blmove", "asyncio_blmove", "wake", "latency", "latency_socket"
SAYS = {
    BLMOVE: "a blocked BLMOVE",
    ASYNC_BLMOVE: "the same by the asyncio client",
    CLAIM: "a waiting claim",
    CONSUME: "a handler of consume",
    SOCKET: "an app beside a sidecar",
}


@dataclass(frozen=True)
class Latencies:
    """Milliseconds, one for each item, by way."""

    of: dict[str, list[float]]

    def ratio(self, way: str, other: str, share: float = 0.5) -> Spread:
        """A percentile of one way over that of another, for each of the rounds."""
        return self._by_round(lambda one, two: percentile(one, share) / percentile(two, share), way, other)

    def difference(self, way: str, other: str) -> Spread:
        """The median of one way minus that of another, for each of the rounds."""
        return self._by_round(lambda one, two: statistics.median(one) - statistics.median(two), way, other)

    def _by_round(self, figure: Callable[[list[float], list[float]], float], way: str, other: str) -> Spread:
        size = len(self.of[way]) // ROUNDS
        parts = [slice(at, at + size) for at in range(0, size * ROUNDS, size)]
        return Spread.of([figure(self.of[way][part], self.of[other][part]) for part in parts])


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def wait_with_blmove(path: str, results: Connection) -> None:
    """A blocked BLMOVE, then LREM, until it is killed."""
    client = redis.Redis(unix_socket_path=path, protocol=2, socket_timeout=60)
    while True:
        payload: Any = client.blmove(_MAIN, _BUSY, timeout=30, src="RIGHT", dest="LEFT")
        results.send((time.monotonic_ns(), payload))
        client.lrem(_BUSY, -1, payload)


def wait_with_async_blmove(path: str, results: Connection) -> None:
    """The same by the asyncio client that the library uses too."""

    async def receive() -> None:
        client: Any = redis.asyncio.Redis(unix_socket_path=path, protocol=2, socket_timeout=60)
        while True:
            payload = await client.blmove(_ASYNC_MAIN, _BUSY, timeout=30, src="RIGHT", dest="LEFT")
            results.send((time.monotonic_ns(), payload))
            await client.lrem(_BUSY, -1, payload)

    asyncio.run(receive())


def wait_with_claim(path: str, results: Connection) -> None:
    """A waiting claim, then done, until it is killed."""

    async def receive() -> None:
        async with claimq.connect(f"unix://{path}?db=0") as server:
            queue = server.queue(CLAIM, worker="receiver")
            while True:
                claims = await queue.claim(1, wait=30)
                results.send((time.monotonic_ns(), claims[0].item.payload))
                await queue.done(claims)

    asyncio.run(receive())


def consume(path: str, results: Connection) -> None:
    """A handler of ``consume``."""

    async def handle(item: claimq.Item) -> None:
        results.send((time.monotonic_ns(), item.payload))

    async def receive() -> None:
        async with claimq.connect(f"unix://{path}?db=0") as server:
            await server.queue(CONSUME, worker="receiver").consume(handle, handle_signals=False)

    asyncio.run(receive())


def work(socket: str, results: Connection) -> None:
    """An app beside a sidecar, in the natural loop."""
    os.environ["CLAIMQ_SOCKET"] = socket
    with claimq.worker.connect() as worker:
        for item in worker.items():
            with item:
                results.send((time.monotonic_ns(), item.payload))


async def measure(bed: Bed, *, samples: int) -> Latencies:
    """`samples` items each way, in turns. WrongResult when one does not arrive."""
    sidecar = Sidecar(bed, SOCKET)
    targets: dict[str, tuple[Callable[[str, Connection], None], str]] = {
        BLMOVE: (wait_with_blmove, bed.path),
        ASYNC_BLMOVE: (wait_with_async_blmove, bed.path),
        CLAIM: (wait_with_claim, bed.path),
        CONSUME: (consume, bed.path),
        SOCKET: (work, str(sidecar.socket)),
    }
    spawning = multiprocessing.get_context("spawn")
    receivers: list[BaseProcess] = []
    results: dict[str, Connection] = {}
    try:
        for way, (target, place) in targets.items():
            results[way], theirs = spawning.Pipe()
            receivers.append(spawning.Process(target=target, args=(place, theirs), daemon=True))
            receivers[-1].start()
        return await _send_all(bed, results, samples)
    finally:
        for process in receivers:
            process.kill()
            process.join()
        sidecar.close()
        bed.empty()


async def _send_all(bed: Bed, results: dict[str, Connection], samples: int) -> Latencies:
    raw, asynchronous = bed.client(), redis.asyncio.Redis(unix_socket_path=bed.path, protocol=2)
    found = Latencies({way: [] for way in results})
    async with asynchronous, claimq.connect(bed.url) as server:

        async def push(payload: bytes) -> None:
            raw.lpush(_MAIN, payload)

        async def push_by_asyncio(payload: bytes) -> None:
            await asynchronous.lpush(_ASYNC_MAIN, payload)

        send: dict[str, Callable[[bytes], Awaitable[object]]] = {BLMOVE: push, ASYNC_BLMOVE: push_by_asyncio}
        for way in results.keys() - send.keys():
            queue = server.queue(way, worker="sender")
            await queue.enqueue_many([])  # connects, and loads the script
            send[way] = queue.enqueue
        for number in range(samples):
            for way in results if number % 2 else reversed(results):
                await asyncio.to_thread(_until_all_wait, bed, len(results))
                payload = b"%d %d" % (number, time.monotonic_ns())
                await send[way](payload)
                must(results[way].poll(LONGEST_WAIT), f"an item woke no waiter in {LONGEST_WAIT} s")
                arrived, got = results[way].recv()
                must(got == payload, "a receiver got another item than was sent")
                found.of[way].append((arrived - int(payload.split()[1])) / 1e6)
    raw.close()
    return found


def _until_all_wait(bed: Bed, count: int) -> None:
    wait_until(
        lambda: bed.info("clients", "blocked_clients") >= count,
        LONGEST_WAIT,
        "the receivers do not come to wait",
    )


async def report(report: Report, bed: Bed, plan: Plan) -> None:
    """Measures, and adds the figures. WrongResult when an item does not arrive."""
    report.heading(
        f"From the enqueue call to a worker that waits: {plan.latency_samples} items each way, in turns"
    )
    found = await measure(bed, samples=plan.latency_samples)
    limit = (
        "two round trips (wake, then claim by script) where BLMOVE needs one, and Python's time between them"
    )
    for way, says in SAYS.items():
        for label, share in (("p50", 0.5), ("p99", 0.99)):
            value = percentile(found.of[way], share)
            report.add(Figure(f"{way}_{label}_ms", f"{says}, {label}", value, "ms"))
    against = "a waiting claim against BLMOVE, p50"
    report.of_rounds("wake_p50_vs_blmove", against, found.ratio(CLAIM, BLMOVE), most=3.0, limit=limit)
    for label, share, most in (("p50", 0.5, None), ("p99", 0.99, 2.0)):
        ratio = found.ratio(CONSUME, ASYNC_BLMOVE, share)
        against = f"a handler against BLMOVE by asyncio, {label}"
        report.of_rounds(f"latency_{label}_vs_blmove", against, ratio, most=most, limit=limit)
    added = found.difference(SOCKET, CONSUME)
    report.of_rounds("latency_sidecar_adds_ms", "what the sidecar adds, p50", added, unit="ms", most=0.4)
