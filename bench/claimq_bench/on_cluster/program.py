"""What `make bench-cluster` does: a cluster, the chart, every measurement in turn, and all of it taken away again."""

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from claimq_bench.figures import Figure, Report
from claimq_bench.meter import Spread, WrongResult
from claimq_bench.on_cluster import crowd, deaths, peers, reaction
from claimq_bench.on_cluster.crowd import Rest
from claimq_bench.on_cluster.operator_process import OperatorProcess
from claimq_bench.on_cluster.place import cluster, delete_queues, release
from clusterkit import HarnessError
from testkit.release import Release

PARTS = ("reaction", "deaths", "crowd")


@dataclass(frozen=True)
class Plan:
    """How much to measure. `windows`: queues to the seconds that are looked at with so many."""

    reactions: int
    kills: int
    deletions: int
    windows: tuple[tuple[int, float], ...]
    wakes: int


FULL = Plan(reactions=10, kills=10, deletions=3, windows=((1, 15.0), (100, 120.0), (500, 45.0)), wakes=10)
QUICK = Plan(reactions=4, kills=3, deletions=1, windows=((1, 10.0), (100, 30.0), (500, 20.0)), wakes=5)


def main(words: Sequence[str]) -> int:
    """0 when all results were right, however slow; 1 when one was wrong; 2 when something could not be measured."""
    parser = argparse.ArgumentParser(
        prog="bench-cluster", description="Measures claimq on a real Kubernetes."
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="also write the figures as one flat JSON object"
    )
    parser.add_argument("--quick", action="store_true", help="fewer samples and shorter windows")
    parser.add_argument("--only", choices=PARTS, action="append", help="only this part (may be given again)")
    chosen = parser.parse_args(words)
    signal.signal(signal.SIGTERM, _end)
    report, started = Report(), time.monotonic()
    try:
        _run(report, QUICK if chosen.quick else FULL, chosen.only or PARTS)
    except WrongResult as error:
        sys.stderr.write(f"\nwrong result, these figures mean nothing: {error}\n")
        return 1
    except HarnessError as error:
        sys.stderr.write(f"\nnot everything could be measured: {error}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    report.note(f"\nall items accounted for; {time.monotonic() - started:.0f} s")
    if chosen.json:
        report.save(chosen.json)
    return 0


def _end(number: int, _: object) -> None:
    """Ends by an exception, so that what was made is taken away; a second one does not end that."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + number)


def _run(report: Report, plan: Plan, parts: Sequence[str]) -> None:
    load = os.getloadavg()[0]
    with cluster(report) as (on, stays):
        report.note("building the images, and installing the chart")
        with release(on, stays=stays) as made:
            nodes = f"{len(on.nodes)} node{'s' if len(on.nodes) > 1 else ''}"
            report.heading(
                f"Kubernetes ({on.name}, {nodes}); {os.cpu_count()} cores; load before the start {load:.1f}"
            )
            report.note("figure [lowest .. highest]; p50 is the median")
            if load > 0.5:
                report.note("other programs are running: all times are longer than on a quiet machine")
            for part in parts:
                _PARTS[part](report, made, plan)


def _reaction(report: Report, made: Release, plan: Plan) -> None:
    report.heading(f"A first item for a queue without workers: {plan.reactions} items")
    found = reaction.measure(made, plan.reactions)
    report.of_rounds(
        "enqueue_to_scale_p50_s",
        "enqueue to workers asked for",
        Spread.of(found.to_scale),
        unit="s",
        most=1.0,
        limit="one pass of the operator and the API server's time for a patch, both on a busy machine",
    )
    report.of_rounds(
        "enqueue_to_claim_p50_s", "enqueue to the first claim", Spread.of(found.to_claim), unit="s"
    )
    if found.to_zero:
        report.of_rounds(
            "done_to_zero_p50_s", "done to no workers (idleAfter 1s)", Spread.of(found.to_zero), unit="s"
        )
    for name, says in peers.FROM_ZERO:
        report.note(f"to compare: {name}: {says}")


def _deaths(report: Report, made: Release, plan: Plan) -> None:
    report.heading(
        f"From a death to its item claimable again: {plan.kills} of each kind; busyExpiry {deaths.EXPIRY:.0f} s"
    )
    found = deaths.measure(made, plan.kills, plan.deletions)
    if not found.killed:
        report.note(
            "app, sidecar and pod are not killed: that needs a cluster of our own (unset KUBE_CONTEXT)"
        )
    says = {
        "app": ("SIGKILL to the app", 1.0, "the sidecar's end of the session"),
        "sidecar": (
            "SIGKILL to the sidecar",
            deaths.EXPIRY,
            "the kubelet's listing of containers, once a second",
        ),
        "pod": (
            "SIGKILL to app and sidecar",
            deaths.EXPIRY,
            "the kubelet's listing of containers, once a second",
        ),
    }
    for kind, took in found.killed.items():
        name, most, limit = says[kind]
        spread = Spread.of(took)
        report.of_rounds(f"{kind}_kill_to_reclaim_p50_s", name, spread, unit="s", most=most, limit=limit)
    report.of_rounds(
        "pod_force_delete_to_reclaim_p50_s",
        "kubectl delete --grace-period=0 --force",
        Spread.of(found.deleted),
        unit="s",
    )
    plain = "a lease that nobody renews: what it costs without all this"
    report.add(Figure("plain_lease_to_reclaim_s", plain, found.plain, "s"))
    for peer, took_so_long in peers.AFTER_A_KILL:
        report.note(f"to compare, defaults after kill -9 on one machine: {peer}: {took_so_long}")


def _crowd(report: Report, made: Release, plan: Plan) -> None:
    operator, known = OperatorProcess.restarted(made), 0
    for queues, seconds in plan.windows:
        found = crowd.rest(made, operator, queues, seconds, since=known)
        _show_rest(report, found)
        known = queues
    took = Spread.of(crowd.wake(made, plan.wakes))
    report.of_rounds(
        f"enqueue_to_scale_{known}_queues_p50_s",
        f"enqueue to workers asked for, {known} queues",
        took,
        unit="s",
    )
    delete_queues(made.cluster)


def _show_rest(report: Report, found: Rest) -> None:
    what = f"{found.queues}_queues" if found.queues > 1 else "1_queue"
    report.heading(f"The operator with {what.replace('_', ' ')} at rest, {found.seconds:.0f} s")
    report.add(Figure(f"settled_{what}_s", "from creating them to all Ready", found.settled, "s"))
    report.of_rounds(f"operator_rss_mb_{what}", "resident memory", found.rss, unit="MB")
    report.add(Figure(f"operator_cpu_share_{what}", "processor time, of one core", found.cpu))
    lag = found.histogram("claimq_pass_lag_seconds")
    report.add(Figure(f"pass_lag_{what}_s", "how late a pass begins, p95", lag.quantile(0.95), "s"))
    report.add(Figure(f"pass_lag_{what}_mean_s", "on average", lag.mean, "s"))
    report.add(Figure(f"pass_lag_{what}_max_s", "none later than", lag.highest(), "s"))
    took = found.histogram("claimq_pass_duration_seconds")
    report.add(Figure(f"pass_time_{what}_p95_s", "how long a pass takes, p95", took.quantile(0.95), "s"))
    report.add(Figure(f"pass_time_{what}_mean_s", "on average", took.mean, "s"))
    report.add(Figure(f"passes_per_second_{what}", "passes a second", found.passes))
    report.add(
        Figure(f"api_requests_per_minute_idle_{what}", "requests to the API server a minute", found.requests)
    )
    if found.requests_audited is not None:
        name = f"api_requests_per_minute_idle_{what}_audited"
        report.add(Figure(name, "the same by its audit log, watches too", found.requests_audited))


_PARTS = {"reaction": _reaction, "deaths": _deaths, "crowd": _crowd}
