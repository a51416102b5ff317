"""What `make bench` does: every measurement in turn on one server with persistence, the main row also without."""

import argparse
import asyncio
import os
import platform
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from claimq_bench.calls import (
    blocking,
    cluster_calls,
    consuming,
    cycle,
    enqueueing,
    flow,
    idling,
    killing,
    limiters,
    looking,
    reaping,
    scale,
    script_calls,
    task_calls,
)
from claimq_bench.figures import Report, writable
from claimq_bench.meter import Bed, WrongResult
from claimq_bench.plan import FULL, QUICK, Plan
from claimq_bench.sidecar import client_rates, latency, pushing, streaming, through_sidecar


def main(words: Sequence[str]) -> int:
    """Runs the benchmarks. 0 when all results were right, however fast; 1 when one was wrong."""
    parser = argparse.ArgumentParser(prog="bench", description="Measures claimq against lists and streams.")
    parser.add_argument(
        "--json", type=writable, metavar="FILE", help="also write the figures as one flat JSON object"
    )
    parser.add_argument("--quick", action="store_true", help="less to count on, in under a minute")
    parser.add_argument("--only", choices=_PARTS, action="append", help="only this part (may be given again)")
    chosen = parser.parse_args(words)
    report = Report()
    started = time.monotonic()
    try:
        asyncio.run(run(report, QUICK if chosen.quick else FULL, chosen.only or PARTS))
    except WrongResult as error:
        sys.stderr.write(f"\nwrong result, these figures mean nothing: {error}\n")
        return 1
    report.note(f"\nall items accounted for; {time.monotonic() - started:.0f} s")
    if chosen.json:
        report.save(chosen.json)
    return 0


async def run(report: Report, plan: Plan, parts: Sequence[str]) -> None:
    bed = Bed(persistent=True)
    try:
        _introduce(report, bed)
        for part in parts:
            await _PARTS[part](report, bed, plan)
    finally:
        bed.close()


def _introduce(report: Report, bed: Bed) -> None:
    load = os.getloadavg()[0]
    version = bed.control.info("server")["valkey_version"]
    report.heading(
        f"Valkey {version} on a Unix socket, append-only file with appendfsync everysec; "
        f"Python {platform.python_version()}; {os.cpu_count()} cores; load before the start {load:.1f}"
    )
    report.note("figure [lowest round .. highest round]; a ratio is the median of the rounds' ratios")
    if load > 0.5:
        report.note("other programs are running: rates and latencies say less than the ratios")


async def _reap(report: Report, bed: Bed, plan: Plan) -> None:
    await reaping.report(report, bed, plan)
    await killing.report(report, bed, plan)


async def _blocking(report: Report, bed: Bed, plan: Plan) -> None:
    await blocking.report(report, bed, plan)
    await looking.report(report, bed, plan)


_PARTS: dict[str, Callable[[Report, Bed, Plan], Awaitable[None]]] = {
    "cycle": cycle.report,
    "enqueue": enqueueing.report,
    "consume": consuming.report,
    "tasks": task_calls.report,
    "waiting": scale.report_waiting,
    "busy": scale.report_busy,
    "clients": scale.report_clients,
    "flow": flow.report,
    "where": looking.report_where,
    "calls": script_calls.report,
    "latency": latency.report,
    "reap": _reap,
    "sidecar": through_sidecar.report,
    "stream": streaming.report,
    "languages": client_rates.report,
    "push": pushing.report,
    "idle": idling.report,
    "cluster": cluster_calls.report,
    "limiters": limiters.report,
    "blocking": _blocking,
    "looking": looking.report,
    "looking-large": partial(looking.report, sizes=looking.LARGE),
}
_LONG = ("idle", "cluster", "limiters", "blocking", "looking", "looking-large")
PARTS = tuple(part for part in _PARTS if part not in _LONG)
"""What runs without `--only`."""
