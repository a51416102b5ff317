"""What `make bench` does: every measurement in turn on one server with persistence, the main row also without."""

import argparse
import asyncio
import os
import platform
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from claimq_bench import (
    blocking,
    client_rates,
    cluster_calls,
    consuming,
    cycle,
    enqueueing,
    flow,
    idling,
    latency,
    limiters,
    looking,
    pushing,
    reaping,
    scale,
    script_calls,
    streaming,
    task_calls,
    through_sidecar,
)
from claimq_bench.cycle import Row, Setting
from claimq_bench.figures import Figure, Report, shown, writable
from claimq_bench.killing import report_kills
from claimq_bench.meter import Bed, Spread, WrongResult


@dataclass(frozen=True)
class Plan:
    """How much to measure. `settings`: of the cycle, the main one (batch 100, 100 bytes) first."""

    settings: tuple[Setting, ...]
    single_items: int
    consume_items: int
    consume_rounds: int
    scale_rounds: int
    latency_samples: int
    sidecar_items: int
    sidecar_starts: int
    stream_items: int
    push_items: int
    reap_runs: int


FULL = Plan(
    settings=(
        Setting(100, 100, 10_000, 11),
        Setting(1, 100, 1_000, 7),
        Setting(10, 100, 4_000, 7),
        Setting(500, 100, 20_000, 7),
        Setting(1, 10_000, 500, 7),
        Setting(10, 10_000, 1_000, 7),
        Setting(100, 10_000, 2_000, 7),
        Setting(500, 10_000, 3_000, 7),
    ),
    single_items=10_000,
    consume_items=20_000,
    consume_rounds=7,
    scale_rounds=60,
    latency_samples=500,
    sidecar_items=40_000,
    sidecar_starts=5,
    stream_items=200_000,
    push_items=40_000,
    reap_runs=3,
)
QUICK = Plan(
    settings=(
        Setting(100, 100, 5_000, 5),
        Setting(1, 100, 200, 3),
        Setting(10, 100, 1_000, 3),
        Setting(500, 100, 5_000, 3),
        Setting(1, 10_000, 100, 3),
        Setting(10, 10_000, 300, 3),
        Setting(100, 10_000, 500, 3),
        Setting(500, 10_000, 500, 3),
    ),
    single_items=2_000,
    consume_items=4_000,
    consume_rounds=3,
    scale_rounds=12,
    latency_samples=100,
    sidecar_items=10_000,
    sidecar_starts=2,
    stream_items=20_000,
    push_items=4_000,
    reap_runs=1,
)


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


async def _cycle(report: Report, bed: Bed, plan: Plan) -> None:
    for setting in plan.settings:
        is_main = setting == plan.settings[0]
        row = await cycle.measure(bed, setting, with_one_push=is_main)
        _show_row(report, row, "")
        _add_ratios(report, row, "")
        if is_main:
            _add_rates(report, row)
    volatile = Bed(persistent=False)
    try:
        row = await cycle.measure(volatile, plan.settings[0], with_one_push=True)
    finally:
        volatile.close()
    _show_row(report, row, ", server without persistence")
    _add_ratios(report, row, "_volatile")


def _show_row(report: Report, row: Row, where: str) -> None:
    setting = row.setting
    report.heading(
        f"Full cycle (enqueue, claim, done), batches of {setting.batch}, {setting.size:,} bytes{where}: "
        f"{setting.rounds} rounds of {setting.items:,} items"
    )
    report.note(f"{'':<26}{'items/s':>9}{'server us/item':>17}{'(enqueue + rest)':>18}{'client us/item':>17}")
    for rival in row.enqueue:
        middle = [
            Spread.of([cost.server_us for cost in costs]).median
            for costs in (row.cycles(rival), row.enqueue[rival], row.work_off[rival])
        ]
        client = Spread.of([cost.client_us for cost in row.cycles(rival)]).median
        parts = f"({middle[1]:.2f} + {middle[2]:.2f})"
        report.note(f"{rival:<26}{row.rate(rival).median:>9,.0f}{middle[0]:>17.2f}{parts:>18}{client:>17.2f}")


def _add_ratios(report: Report, row: Row, suffix: str) -> None:
    setting = row.setting
    is_main = setting.batch == 100 and setting.size == 100 and not suffix
    name = f"b{setting.batch}" + ("_10kb" if setting.size == 10_000 else "") + suffix
    limit = (
        "the scripts' fixed cost for each call"
        if setting.batch < 100
        else "copying the item in and out of the script"
    )
    for other, most in (("lists", 3.0), ("streams", 1.7)):
        report.of_rounds(
            f"cycle_server_cpu_vs_{other}_{name}",
            f"server time for an item, against {other}",
            row.server_against(other),
            most=most if is_main else None,
            limit=limit,
        )
    if not is_main:
        report.of_rounds(f"cycle_items_per_second_{name}", "items/s through one process", row.rate("claimq"))
        report.of_rounds(f"lists_items_per_second_{name}", "items/s of lists", row.rate("lists"))


def _add_rates(report: Report, row: Row) -> None:
    """The rate asked for is 50,000/s where lists reach 80,000: the same share where lists reach less."""
    lists, share = row.rate("lists"), 50_000 / 80_000
    report.of_rounds("lists_items_per_second_b100", "items/s of lists", lists, unit="/s")
    report.of_rounds("streams_items_per_second_b100", "items/s of streams", row.rate("streams"), unit="/s")
    report.of_rounds(
        "cycle_items_per_second_b100",
        f"items/s through one process (5/8 of {shown(lists.median, 'lists')})",
        row.rate("claimq"),
        unit="/s",
        least=min(50_000.0, lists.median * share),
        limit="Python's time for an item, shown above as client us",
    )
    for rival, name in (("lists", "lists"), ("claimq", "cycle")):
        rate = Spread.of([cost.rate for cost in row.work_off[rival]])
        report.of_rounds(
            f"{name}_claim_done_per_second_b100",
            f"items/s of {rival}, claim and done only",
            rate,
            unit="/s",
        )
    report.of_rounds(
        "cycle_server_cpu_vs_one_push_b100",
        "server time, against lists with one LPUSH a batch",
        row.server_against("lists, one LPUSH a batch"),
    )


async def _enqueue(report: Report, bed: Bed, plan: Plan) -> None:
    report.heading(
        f"Enqueueing one by one: {plan.consume_rounds} rounds of {plan.single_items:,} items each way"
    )
    found = await enqueueing.measure(bed, items=plan.single_items, rounds=plan.consume_rounds)
    lpush = Spread.of([cost.rate for cost in found.lpush])
    report.of_rounds("lpush_single_per_second", "items/s of a blocking LPUSH", lpush, unit="/s")
    report.of_costs("lpush_single", found.lpush)
    report.of_costs("enqueue_single_blocking", found.blocking)
    report.of_costs("enqueue_50_concurrent", found.concurrent)
    report.of_rounds(
        "enqueue_single_blocking_vs_lpush",
        "items/s of claimq.blocking against it",
        found.against_lpush(found.blocking),
        least=0.8,
        limit="the script's fixed cost, and the client's checks",
    )
    report.of_rounds(
        "enqueue_script_alone_vs_lpush",
        "items/s of its script on a bare socket against it",
        found.against_lpush(found.script_alone),
    )
    report.of_rounds(
        "enqueue_50_concurrent_vs_lpush",
        "items/s of 50 asyncio tasks against it",
        found.against_lpush(found.concurrent),
        least=4.0,
        limit="Python's time for a task and a call",
    )


async def _waiting(report: Report, bed: Bed, plan: Plan) -> None:
    report.heading("Claim + done, 1,000,000 items waiting against 1,000 (batches of 100)")
    compared = await scale.waiting(bed, many=1_000_000, few=1_000, rounds=plan.scale_rounds)
    _add_compared(
        report, "claim_done_cost_1m_vs_1k_waiting", compared, 1.15, "memory further away: cache misses"
    )


async def _busy(report: Report, bed: Bed, plan: Plan) -> None:
    report.heading("Claim + done, 100,000 items busy against 100 (batches of 100)")
    compared = await scale.busy(bed, many=100_000, few=100, rounds=plan.scale_rounds)
    _add_compared(
        report, "claim_done_cost_100k_vs_100_busy", compared, 1.5, "the leases are a sorted set: O(log busy)"
    )


async def _clients(report: Report, bed: Bed, plan: Plan) -> None:
    report.heading("Claim + done, items of 10,000 clients in turn against items of one (batches of 100)")
    compared = await scale.clients(bed, many=10_000, rounds=plan.scale_rounds)
    limit = "each item comes from a list of its own, where one client's come from one list with one command"
    _add_compared(report, "claim_done_cost_10k_vs_1_clients", compared, 2.0, limit)


def _add_compared(report: Report, name: str, compared: scale.Compared, most: float, limit: str) -> None:
    report.of_rounds(
        name, "server time for an item, large against small", compared.server, most=most, limit=limit
    )
    report.of_rounds(f"{name}_wall", "wall time, large against small", compared.wall)
    large = Spread.of([cost.server_main_us for cost in compared.large])
    report.of_rounds(f"{name}_us", "server time for an item, large", large, unit="us")


async def _reap(report: Report, bed: Bed, plan: Plan) -> None:
    await reaping.report(report, bed, runs=plan.reap_runs)
    await report_kills(report, bed, plan.reap_runs)


async def _sidecar(report: Report, bed: Bed, plan: Plan) -> None:
    report.heading("Through the sidecar's socket, to one Python app with claimq.worker")
    found = await through_sidecar.measure(bed, items=plan.sidecar_items, starts=plan.sidecar_starts)
    cpu = "Python's time in the sidecar and in the app: JSON, HTTP, and the library's call"
    report.of_rounds(
        "socket_items_per_second_b100", "batches of 100", found.batches, unit="/s", least=20_000, limit=cpu
    )
    report.of_rounds("worker_items_default_per_second", "one by one, in a loop", found.loop.items, unit="/s")
    report.of_rounds(
        "worker_items_default_vs_lists_b100",
        "the same, to lists in pipelines of 100",
        found.loop_vs_lists,
        least=0.16,
        limit=cpu,
    )
    report.of_rounds(
        "worker_items_default_sidecar_us_per_item",
        "processor time of the sidecar",
        found.loop.cpu_us,
        unit="us",
    )
    for name, says, rates, least in (
        ("concurrent_50", "one by one in 50 threads", found.threads, 3.8),
        ("concurrent_50_tasks", "one by one in 50 tasks", found.tasks, 3.8),
    ):
        report.of_rounds(f"socket_items_per_second_{name}", says, rates.items, unit="/s")
        report.of_rounds(
            f"socket_{name}_vs_library_round_trip",
            "the same, to single calls of the library",
            rates.vs_round_trips,
            least=least,
            limit=cpu,
        )
        report.of_rounds(
            f"socket_sidecar_us_per_item_{name}",
            "processor time of the sidecar",
            rates.cpu_us,
            unit="us",
        )
    report.add(
        Figure(
            "sidecar_idle_rss_mb",
            "resident memory, idle",
            found.idle_rss_mb,
            "MB",
            most=40,
            limit="Python itself and its modules: bench/benchmarks.md",
        )
    )
    report.add(
        Figure("sidecar_rss_after_load_mb", "resident memory, after this load", found.loaded_rss_mb, "MB")
    )
    report.of_rounds(
        "sidecar_ready_s",
        "from start to ready",
        found.ready,
        unit="s",
        most=0.5,
        limit="starting Python and importing modules",
    )


async def _blocking(report: Report, bed: Bed, plan: Plan) -> None:
    contents, rounds = (blocking.QUICK, 2) if plan is QUICK else (blocking.FULL, 3)
    bed.control.config_set("appendonly", "no")  # gigabytes that need not be written
    await blocking.report(report, bed, contents, rounds)
    await looking.report(report, bed, is_quick=plan is QUICK)


_PARTS: dict[str, Callable[[Report, Bed, Plan], Awaitable[None]]] = {
    "cycle": _cycle,
    "enqueue": _enqueue,
    "consume": lambda report, bed, plan: consuming.report(
        report, bed, items=plan.consume_items, rounds=plan.consume_rounds
    ),
    "tasks": lambda report, bed, plan: task_calls.report(
        report, bed, items=plan.consume_items, rounds=plan.consume_rounds
    ),
    "waiting": _waiting,
    "busy": _busy,
    "clients": _clients,
    "flow": lambda report, bed, plan: flow.report(
        report, bed, rounds=plan.scale_rounds, items=plan.single_items // 10
    ),
    "where": lambda report, bed, plan: looking.report_where(report, bed, is_quick=plan is QUICK),
    "calls": lambda report, bed, plan: script_calls.report(
        report, bed, items=plan.single_items // 5, rounds=plan.consume_rounds
    ),
    "latency": lambda report, bed, plan: latency.report(report, bed, samples=plan.latency_samples),
    "reap": _reap,
    "sidecar": _sidecar,
    "stream": lambda report, bed, plan: streaming.report(report, bed, items=plan.stream_items),
    "languages": lambda report, bed, plan: client_rates.report(report, bed, items=plan.stream_items // 5),
    "push": lambda report, bed, plan: pushing.report(report, bed, items=plan.push_items),
    "idle": lambda report, bed, plan: idling.report(report, bed, rounds=plan.scale_rounds),
    "cluster": lambda report, _, plan: cluster_calls.report(report, rounds=plan.consume_rounds),
    "limiters": lambda report, bed, plan: limiters.report(report, bed, rounds=plan.sidecar_starts),
    "blocking": _blocking,
    "looking": lambda report, bed, plan: looking.report(report, bed, is_quick=plan is QUICK),
    "looking-large": lambda report, bed, _: looking.report(report, bed, is_quick=False, full=looking.LARGE),
}
_LONG = ("idle", "cluster", "limiters", "blocking", "looking", "looking-large")
PARTS = tuple(part for part in _PARTS if part not in _LONG)
"""What runs without `--only`."""
