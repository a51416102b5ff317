"""Measures how fast a queue of a server is for a program on this machine, with a queue made for it."""

from __future__ import annotations

import asyncio
import secrets
import statistics
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import claimq

BATCH = 100
_CALLS = 200
_LONGEST_WAIT = 5.0
_HANDLERS = 32


@dataclass(frozen=True, slots=True)
class Speed:
    """What was measured. ``calls``: the seconds of each call; empty if the calls were not measured."""

    name: str
    items: int
    seconds: float
    calls: Sequence[float]

    @property
    def rate(self) -> float:
        """Items per second."""
        return self.items / self.seconds

    @property
    def median(self) -> float | None:
        """Of the calls, in seconds."""
        return statistics.median(self.calls) if self.calls else None

    @property
    def p99(self) -> float | None:
        """Of the calls, in seconds: all but one of a hundred were not slower."""
        return sorted(self.calls)[-1 - len(self.calls) // 100] if self.calls else None


@asynccontextmanager
async def temporary_queue(server: claimq.Server, base: str) -> AsyncGenerator[claimq.ReliableQueue]:
    """A new queue whose name begins with ``base``, which is deleted at the end, also after Ctrl-C."""
    queue = server.queue(f"{base}-{secrets.token_hex(4)}", worker="claimq-bench")
    try:
        yield queue
    finally:
        await queue.delete()


async def measure(queue: claimq.ReliableQueue, *, items: int, size: int) -> AsyncGenerator[Speed]:
    """Measures one operation after another, each with ``items`` items of ``size`` bytes; the calls for single items
    with a tenth of them. The queue is empty before and after each. Raises what the library raises.
    """
    payload = b"x" * size
    few = max(1, items // 10)
    yield await _timed("one call (snapshot)", _CALLS, lambda _: queue.snapshot())
    yield await _timed("enqueue one by one", few, lambda _: queue.enqueue(payload))
    yield await _timed("claim and done one by one", few, lambda _: _work(queue, 1))
    yield await _timed(
        "enqueue in batches of 100", items, lambda count: queue.enqueue_many([payload] * count), BATCH
    )
    yield await _timed("claim and done in batches of 100", items, lambda count: _work(queue, count), BATCH)
    await _timed("", items, lambda count: queue.enqueue_many([payload] * count), BATCH)
    yield await _consumed(queue, items)
    yield await _waits(queue, payload)


async def _timed(name: str, items: int, call: Callable[[int], Awaitable[object]], batch: int = 1) -> Speed:
    calls: list[float] = []

    async def one(count: int) -> None:
        started = time.perf_counter()
        await call(count)
        calls.append(time.perf_counter() - started)

    for begin in range(0, items, batch):
        await _to_its_end(one(min(batch, items - begin)))
    return Speed(name, items, sum(calls), calls)


async def _to_its_end(call: Awaitable[object]) -> None:
    """Awaits a call; a cancellation takes effect after it, the second one at once.

    An enqueue that is abandoned on its way could reach the server after the queue has been deleted.
    """
    made = asyncio.ensure_future(call)
    try:
        await asyncio.shield(made)
    except asyncio.CancelledError:
        await asyncio.wait([made])
        raise


async def _work(queue: claimq.ReliableQueue, count: int) -> None:
    """Claims so many items, in as many calls as their size needs, and ends them."""
    while count:
        claims = await queue.claim(count, wait=0)
        count -= len(claims)
        if not claims:
            return
        await queue.done(claims)


async def _consumed(queue: claimq.ReliableQueue, items: int) -> Speed:
    async def handle(_: claimq.Item) -> None:
        return

    started = time.perf_counter()
    await queue.consume(
        handle, concurrency=_HANDLERS, chunk=BATCH, return_when_empty=True, handle_signals=False
    )
    return Speed(f"consume, {_HANDLERS} handlers at once", items, time.perf_counter() - started, ())


async def _waits(queue: claimq.ReliableQueue, payload: bytes) -> Speed:
    """From the enqueue of an item until a worker that waited for it has it."""
    calls: list[float] = []

    async def one() -> None:
        waiting = asyncio.ensure_future(queue.claim(1, wait=_LONGEST_WAIT))
        await asyncio.sleep(0.005)  # so that it waits on the server
        started = time.perf_counter()
        await queue.enqueue(payload)
        claims = await waiting
        calls.append(time.perf_counter() - started)
        await queue.done(claims)

    for _ in range(_CALLS):
        await _to_its_end(one())
    return Speed("enqueue until a waiting worker has it", _CALLS, sum(calls), calls)
