"""How long an item takes from the enqueue call to a claim that was waiting for it, against LPUSH and a blocked BLMOVE.

Each of the two has a process of its own that waits, always; this process sends to one and then to the other. The
sender puts the machine's monotonic clock into the payload, the receiver looks at the same clock when it has the item.
"""

import asyncio
import multiprocessing
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import redis

import claimq
from claimq_bench.meter import Bed, Spread, must

LONGEST_WAIT = 10.0
_MAIN, _BUSY = "wake:main", "wake:busy"


@dataclass(frozen=True)
class Latencies:
    """Milliseconds, one for each item."""

    library: list[float]
    blmove: list[float]
    rounds: int

    def ratio(self) -> Spread:
        """p50 over p50, for each of the rounds."""
        size = len(self.library) // self.rounds
        starts = range(0, size * self.rounds, size)
        return Spread.of(
            [
                statistics.median(self.library[at : at + size])
                / statistics.median(self.blmove[at : at + size])
                for at in starts
            ]
        )


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def wait_with_blmove(path: str, results: Connection) -> None:
    """The raw receiver: a blocked BLMOVE, then LREM, until it is killed."""
    client = redis.Redis(unix_socket_path=path, protocol=2, socket_timeout=60)
    while True:
        payload: Any = client.blmove(_MAIN, _BUSY, timeout=30, src="RIGHT", dest="LEFT")
        arrived = time.monotonic_ns()
        results.send((arrived, payload))
        client.lrem(_BUSY, -1, payload)


def wait_with_claim(path: str, results: Connection) -> None:
    """The library's receiver: a waiting claim, then done, until it is killed."""

    async def receive() -> None:
        async with claimq.connect(f"unix://{path}?db=0") as server:
            queue = server.queue("wake", worker="receiver")
            while True:
                claims = await queue.claim(1, wait=30)
                arrived = time.monotonic_ns()
                results.send((arrived, claims[0].item.payload))
                await queue.done(claims)

    asyncio.run(receive())


async def measure(bed: Bed, *, samples: int, rounds: int) -> Latencies:
    """`samples` items each way, in turns. WrongResult when one does not arrive."""
    spawning = multiprocessing.get_context("spawn")
    ways: list[tuple[Connection, list[float]]] = []
    receivers: list[BaseProcess] = []
    targets: list[Callable[[str, Connection], None]] = [wait_with_blmove, wait_with_claim]
    for target in targets:
        ours, theirs = spawning.Pipe()
        receiver = spawning.Process(target=target, args=(bed.path, theirs), daemon=True)
        receiver.start()
        receivers.append(receiver)
        ways.append((ours, []))
    try:
        await _send_all(bed, ways, samples)
    finally:
        for process in receivers:
            process.kill()
            process.join()
    bed.empty()
    return Latencies(library=ways[1][1], blmove=ways[0][1], rounds=rounds)


async def _send_all(bed: Bed, ways: list[tuple[Connection, list[float]]], samples: int) -> None:
    raw = bed.client()
    async with claimq.connect(bed.url) as server:
        queue = server.queue("wake", worker="sender")
        await queue.enqueue_many([])  # connects, and loads the script
        for number in range(samples):
            for way in (0, 1) if number % 2 else (1, 0):
                await asyncio.to_thread(_until_both_wait, bed)
                payload = b"%d %d" % (number, time.monotonic_ns())
                if way == 0:
                    raw.lpush(_MAIN, payload)
                else:
                    await queue.enqueue(payload)
                results, latencies = ways[way]
                must(results.poll(LONGEST_WAIT), f"an item woke no waiter in {LONGEST_WAIT} s")
                arrived, got = results.recv()
                must(got == payload, "a receiver got another item than was sent")
                latencies.append((arrived - int(payload.split()[1])) / 1e6)
    raw.close()


def _until_both_wait(bed: Bed) -> None:
    deadline = time.monotonic() + LONGEST_WAIT
    while bed.info("clients", "blocked_clients") < 2:
        must(time.monotonic() < deadline, "the receivers do not come to wait")
        time.sleep(0.0005)
