"""Reaping a hundred thousand expired items: how long, and how long the server is busy with a single call.

The leases run out because the queue's clock is moved, not because anybody waits: the clock's offset, and with it
the instant at which the queue was last served, so that the queue does not take the step for an outage and grant its
holders grace.
"""

import time
from dataclasses import dataclass

import claimq
from claimq_bench.calls.scale import LONG, hold
from claimq_bench.figures import Report
from claimq_bench.meter import Bed, Cost, Spread, must
from claimq_bench.plan import Plan

LIMIT = 100
"""Items that one call may handle: what a reaper asks for by default."""
_SLOW_LOG_FROM_US = 500


@dataclass(frozen=True)
class Reaping:
    """The cost of all; milliseconds of each call as its caller saw it, and of the server's longest script."""

    cost: Cost
    calls: Spread
    server_longest_ms: float


async def measure(bed: Bed, count: int) -> Reaping:
    """Expires `count` claims at once and reaps them. WrongResult when one of them is not back in main afterwards."""
    async with claimq.connect(bed.url) as server:
        queue = server.queue("reaping", worker="reaper")
        await queue.set_policy(LONG)
        await hold(server, queue.name, count)
        _move_clock(bed, "cq:{reaping}:stats", LONG.busy_expiry + 60)
        bed.control.config_set("slowlog-log-slower-than", _SLOW_LOG_FROM_US)
        bed.control.slowlog_reset()
        calls: list[float] = []
        tokens: set[str] = set()
        more = True
        with bed.measured(count) as cost:
            while more and len(calls) < 2 * count:
                start = time.perf_counter()
                reaped = await queue.reap(LIMIT)
                calls.append((time.perf_counter() - start) * 1000)
                tokens.update(outcome.token for outcome in reaped.expired)
                more = reaped.more
        lengths = await queue.lengths()
        slowest = max((entry["duration"] for entry in bed.control.slowlog_get(1000)), default=0) / 1000
        must(len(tokens) == count, f"{count} claims had expired, {len(tokens)} were reaped")
        must(
            lengths[claimq.State.MAIN] == count and lengths[claimq.State.BUSY] == 0,
            f"after reaping {count} items: {lengths}",
        )
    bed.empty()
    return Reaping(cost, Spread.of(calls), slowest)


def _move_clock(bed: Bed, stats: str, seconds: float) -> None:
    ms = int(seconds * 1000)
    clock = bed.control.time()
    offset = float(bed.control.hget(stats, "clock_offset") or 0) + ms
    now = clock[0] * 1000 + clock[1] // 1000 + offset
    bed.control.hset(stats, mapping={"clock_offset": offset, "seen_at": now, "grace_until": 0})


async def report(report: Report, bed: Bed, plan: Plan) -> None:
    """Measures, and adds the figures."""
    report.heading(f"Reaping 100,000 expired items, {LIMIT} in a call: {plan.reap_runs} runs")
    found = [await measure(bed, 100_000) for _ in range(plan.reap_runs)]
    script = Spread.of([run.server_longest_ms for run in found])
    server = f"the server's longest script took {script.median:.1f} ms"
    report.of_rounds("reap_100k_s", "all of them", Spread.of([run.cost.wall for run in found]), unit="s")
    report.of_rounds(
        "reap_100k_longest_call_ms",
        "longest call, as its caller saw it",
        Spread.of([run.calls.high for run in found]),
        unit="ms",
        most=20.0,
        limit=f"other programs, the disk, or the caller's own time: {server}",
    )
    report.of_rounds(
        "reap_100k_longest_script_ms", "longest script, by the server's slow log", script, unit="ms"
    )
    median = Spread.of([run.calls.median for run in found])
    report.of_rounds("reap_100k_median_call_ms", "median call", median, unit="ms")
