"""A limit of claimq beside limiters in the app: a token bucket and a window in Redis before the call, and BullMQ's.

Ten workers in one process take items that all wait. Each limiter is to let ``RATE`` items start a second. What counts
is the instant at which the app begins an item.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis.asyncio

import claimq
from claimq import Limit, Policy
from claimq_bench.figures import Report
from claimq_bench.meter import Bed, Spread, must
from claimq_bench.plan import Plan
from claimq_bench.rivals import new_payloads

WORKERS, RATE, SECONDS, TAKES = 10, 50, 10, 0.02
_SIZE = 100
_BUCKET = """
local now = redis.call('TIME')
now = now[1] * 1000 + now[2] / 1000
local rate, burst = ARGV[1] / 1000, tonumber(ARGV[2])
local state = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens = math.min(burst, (tonumber(state[1]) or burst) + (now - (tonumber(state[2]) or now)) * rate)
local wait = 0
if tokens >= 1 then tokens = tokens - 1 else wait = math.ceil((1 - tokens) / rate) end
redis.call('HSET', KEYS[1], 'tokens', string.format('%.6f', tokens), 'at', string.format('%.3f', now))
return wait
"""
"""The usual script: 0 if a token was taken, or the milliseconds until there is one."""
_WINDOW = """
local now = redis.call('TIME')
local count = redis.call('INCR', KEYS[1] .. now[1])
redis.call('EXPIRE', KEYS[1] .. now[1], 5)
return count <= tonumber(ARGV[1]) and 0 or math.ceil(1000 - now[2] / 1000)
"""
"""The same for a number of starts in each second of the clock."""


@dataclass(frozen=True)
class Run:
    """When the items of one run began, in order, and when the last one ended; seconds."""

    starts: list[float]
    ended: float

    @property
    def rate(self) -> float:
        """Items a second."""
        return len(self.starts) / (self.ended - self.starts[0])

    def worst(self, rate: float, burst: int) -> float:
        """Starts in the worst second, by what the limit lets start in it."""
        return max(sum(start <= other < start + 1 for other in self.starts) for start in self.starts) / (
            burst + rate
        )

    def late_ms(self, percent: int) -> float:
        """How much later than by the rate an item starts after the one before; this percentile."""
        gaps = [1000 * (b - a - 1 / RATE) for a, b in zip(self.starts, self.starts[1:], strict=False)]
        return statistics.quantiles(gaps, n=100)[percent - 1]


Way = Callable[[Bed, int, int], Awaitable[Run]]
"""Works off so many items at a rate; 0 is none."""


async def of_claimq(bed: Bed, items: int, rate: int) -> Run:
    """A limit of the queue."""
    starts: list[float] = []

    async def handle(_: claimq.Item) -> None:
        starts.append(time.monotonic())
        await asyncio.sleep(TAKES)

    async with claimq.connect(bed.url) as server:
        queue = server.queue("limited", worker="bench")
        await queue.set_policy(Policy(limits=(Limit("api", rate=f"{rate}/s"),) if rate else ()))
        await queue.enqueue_many(new_payloads(items, _SIZE))
        await queue.consume(handle, concurrency=WORKERS, return_when_empty=True)
    return Run(starts, time.monotonic())


def in_app(text: str, *more: int) -> Way:
    """A script before the call: a worker that has an item asks, sleeps and asks again."""

    async def run(bed: Bed, items: int, rate: int) -> Run:
        starts: list[float] = []
        client: Any = redis.asyncio.Redis(unix_socket_path=bed.path, protocol=2)
        script = client.register_script(text)
        await client.lpush("main", *new_payloads(items, _SIZE))

        async def work() -> None:
            while payload := await client.rpoplpush("main", "busy"):
                wait = await script(keys=["limiter"], args=[rate, *more]) if rate else 0
                while wait:
                    await asyncio.sleep(wait / 1000)
                    wait = await script(keys=["limiter"], args=[rate, *more])
                starts.append(time.monotonic())
                await asyncio.sleep(TAKES)
                await client.lrem("busy", -1, payload)

        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(work())
        await client.aclose()
        return Run(sorted(starts), time.monotonic())

    return run


async def of_bullmq(bed: Bed, items: int, rate: int) -> Run:
    """BullMQ's limiter of one worker, in Node.js."""
    program = Path(__file__).with_name("bullmq_limiter.mjs")
    words = [os.environ["BULLMQ"], bed.path, items, WORKERS, rate, round(1000 * TAKES)]
    pipe = asyncio.subprocess.PIPE
    node = await asyncio.create_subprocess_exec(
        "node", str(program), *map(str, words), stdout=pipe, stderr=pipe
    )
    out, errors = await node.communicate()
    must(node.returncode == 0, f"bullmq: {errors.decode()[-500:]}")
    *starts, last = json.loads(out)
    return Run(sorted(starts), last)


WAYS: dict[str, Way] = {"claimq": of_claimq, "bucket": in_app(_BUCKET, 1), "window": in_app(_WINDOW)}


async def report(to: Report, bed: Bed, plan: Plan) -> None:
    """All ways in turns; BullMQ if ``$BULLMQ`` is a directory with its package."""
    rounds = plan.sidecar_starts
    to.heading(f"Limiters at {RATE} starts a second, {WORKERS} workers; at the capacity, {rounds} rounds")
    ways = WAYS | ({"bullmq": of_bullmq} if "BULLMQ" in os.environ else {})
    runs: dict[str, list[Run]] = {name: [] for name in ways}
    at_capacity: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            runs[name].append(await _checked(way, bed, RATE * SECONDS, RATE))
            free = await _checked(way, bed, 500, 0)
            limited = await _checked(way, bed, 500, round(free.rate))
            at_capacity[name].append(limited.rate / free.rate)
    for name in ways:
        burst = 0 if name in ("window", "bullmq") else 1
        for figure, says, values in (
            (
                "worst_window",
                "starts in the worst second, by the bound",
                [run.worst(RATE, burst) for run in runs[name]],
            ),
            (
                "late_p50_ms",
                "lateness of the next start, p50, ms",
                [run.late_ms(50) for run in runs[name]],
            ),
            (
                "late_p99_ms",
                "lateness of the next start, p99, ms",
                [run.late_ms(99) for run in runs[name]],
            ),
            ("at_capacity", "items/s at a limit equal to the capacity, to none", at_capacity[name]),
        ):
            to.of_rounds(f"limiter_{name}_{figure}", f"{name}: {says}", Spread.of(values))


async def _checked(way: Way, bed: Bed, items: int, rate: int) -> Run:
    run = await way(bed, items, rate)
    must(len(run.starts) == items, f"{items} items were enqueued, {len(run.starts)} began")
    bed.empty()
    return run
