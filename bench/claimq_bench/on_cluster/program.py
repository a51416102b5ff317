"""Runs `make bench-cluster`: starts a cluster, installs the chart, measures, and removes everything."""

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from claimq_bench.figures import Report, writable
from claimq_bench.meter import WrongResult
from claimq_bench.on_cluster import crowd, deaths, reaction, scale_downs, scaling, scaling_plot
from claimq_bench.on_cluster.operator_process import OperatorProcess
from claimq_bench.on_cluster.place import delete_queues, release
from claimq_bench.on_cluster.reporting import (
    report_deaths,
    report_reaction,
    report_rest,
    report_run,
    report_scale_downs,
    report_scaling,
    report_wake,
)
from claimq_bench.simulation.plot import FORMATS
from clusterkit import HarnessError, at_hand
from testkit.on_cluster.release import Release

PARTS = ("reaction", "deaths", "scale-downs", "crowd")
SCALING = "scaling"
"""Only if asked for: it builds KEDA and takes three quarters of an hour."""


@dataclass(frozen=True)
class Plan:
    """How much to measure. `windows`: queues to the seconds that are looked at with so many. `trace`: seconds."""

    reactions: int
    kills: int
    deletions: int
    scale_downs: int
    windows: tuple[tuple[int, float], ...]
    wakes: int
    trace: float


FULL = Plan(
    reactions=10,
    kills=10,
    deletions=3,
    scale_downs=200,
    windows=((1, 15.0), (100, 120.0), (1000, 60.0)),
    wakes=10,
    trace=400.0,
)
QUICK = Plan(
    reactions=4,
    kills=3,
    deletions=1,
    scale_downs=10,
    windows=((1, 10.0), (100, 30.0), (1000, 20.0)),
    wakes=5,
    trace=180.0,
)


_Part = Callable[[Report, Release, Plan], None]


@dataclass(frozen=True)
class Asked:
    """What the command line asks for."""

    plan: Plan
    parts: Sequence[str]
    json: Path | None
    plot: Path | None = None


def asked(words: Sequence[str]) -> Asked:
    """The words of a command line; SystemExit (2) with what is wrong about them."""
    parser = argparse.ArgumentParser(
        prog="bench-cluster", description="Measures claimq on a real Kubernetes."
    )
    parser.add_argument(
        "--json", type=writable, metavar="FILE", help="also write the figures as one flat JSON object"
    )
    parser.add_argument("--quick", action="store_true", help="fewer samples and shorter windows")
    parts = (*PARTS, SCALING)
    parser.add_argument("--only", choices=parts, action="append", help="only this part (may be given again)")
    parser.add_argument(
        "--scaling", action="store_true", help="also compare the scaling with KEDA's (builds it)"
    )
    parser.add_argument(
        "--plot", type=_picture, metavar="FILE", help="draw the comparison with KEDA (.png, .svg)"
    )
    chosen = parser.parse_args(words)
    wanted = chosen.only or (parts if chosen.scaling else PARTS)
    if chosen.plot and SCALING not in wanted:
        parser.error("--plot draws the comparison with KEDA: add --scaling")
    return Asked(QUICK if chosen.quick else FULL, wanted, chosen.json, chosen.plot)


def _picture(word: str) -> Path:
    """A file that can be written and drawn, said before anything is measured."""
    path = writable(word)
    if path.suffix.lower() not in FORMATS:
        raise argparse.ArgumentTypeError(f"the name of {word!r} ends in none of {', '.join(FORMATS)}")
    return path


def main(words: Sequence[str]) -> int:
    """Exit code 0 if all results were right, 1 if one was wrong, 2 if something could not be measured."""
    chosen = asked(words)
    signal.signal(signal.SIGTERM, _end)
    report, started = Report(), time.monotonic()
    try:
        _run(report, chosen)
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
    """Ends with an exception, so that everything is removed; a second signal does not interrupt that."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + number)


def _run(report: Report, chosen: Asked) -> None:
    load = os.getloadavg()[0]
    with at_hand(report.note) as (on, stays):
        report.note("building the images, and installing the chart")
        with release(on, stays=stays) as made:
            nodes = f"{len(on.nodes)} node{'s' if len(on.nodes) > 1 else ''}"
            report.heading(
                f"Kubernetes ({on.name}, {nodes}); {os.cpu_count()} cores; load before the start {load:.1f}"
            )
            report.note("figure [lowest .. highest]; p50 is the median")
            if load > 0.5:
                report.note("other programs are running: all times are longer than on a quiet machine")
            parts: dict[str, _Part] = {**_PARTS, SCALING: partial(_scaling, plot=chosen.plot)}
            for part in chosen.parts:
                parts[part](report, made, chosen.plan)


def _reaction(report: Report, made: Release, plan: Plan) -> None:
    report.heading(f"A first item for a queue without workers: {plan.reactions} items")
    report_reaction(report, reaction.measure(made, plan.reactions))


def _deaths(report: Report, made: Release, plan: Plan) -> None:
    report.heading(
        f"From a death to its item claimable again: {plan.kills} of each kind; busyExpiry {deaths.EXPIRY:.0f} s"
    )
    report_deaths(report, deaths.measure(made, plan.kills, plan.deletions))


def _scale_downs(report: Report, made: Release, plan: Plan) -> None:
    report.heading(
        f"{plan.scale_downs} scale-downs from {scale_downs.WORKERS} workers to the {scale_downs.BUSY} that have an item"
    )
    report_scale_downs(report, scale_downs.measure(made, plan.scale_downs))


def _crowd(report: Report, made: Release, plan: Plan) -> None:
    operator, known = OperatorProcess.restarted(made), 0
    for queues, seconds in plan.windows:
        report_rest(report, crowd.rest(made, operator, queues, seconds, since=known))
        known = queues
    report_wake(report, known, crowd.wake(made, plan.wakes))
    delete_queues(made.cluster)


def _scaling(report: Report, made: Release, plan: Plan, plot: Path | None = None) -> None:
    report.heading(
        f"Traces of {plan.trace:.0f} s with real pods, beside KEDA's list scaler: "
        f"items of {scaling.ITEM_SECONDS:.0f} s, target {scaling.TARGET:.0f} s, at most {scaling.MOST} workers"
    )
    runs: list[scaling.Run] = []
    for run in scaling.measure(made, plan.trace):
        report_run(report, run)
        runs.append(run)
    report_scaling(report, runs)
    if plot:
        scaling_plot.draw(plot, runs)


_PARTS = {"reaction": _reaction, "deaths": _deaths, "scale-downs": _scale_downs, "crowd": _crowd}
