"""``make simulate``: claimq's scaling rule beside other autoscalers, in simulation.

Usage: run_simulation.py [--json FILE] [--quick] [--jobs N] [--seeds 11,12,...] [--scenarios N] [--no-grid]. Prints a
table and the figures; FILE also gets every outcome, for tables of your own.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from claimq_bench.scaling_study import SCENARIOS, Outcome, Row, cases, figures, rows, run_all

COLUMNS = (
    "scenario",
    "traces with 99 % in time",
    "worst share in time",
    "pod-seconds by KEDA's defaults",
    "by the best KEDA setting of the trace, worst trace",
    "by the best single KEDA setting (its traces in time)",
    "busy pods stopped",
    "scalings by KEDA's defaults",
)
QUICK_SHAPES = ("batch", "on-off", "sparse", "steady")


def main() -> int:
    """Runs the study and prints it."""
    parser = argparse.ArgumentParser(
        description="claimq's scaling rule beside other autoscalers, in simulation"
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seeds", default="11,12,13,14,15")
    parser.add_argument("--scenarios", type=int, default=len(SCENARIOS), help="only the first so many")
    parser.add_argument("--no-grid", action="store_true", help="leave out the grid of KEDA settings")
    given = parser.parse_args()
    seeds = [int(word) for word in given.seeds.split(",")]
    if given.quick:
        work = cases(seeds[:1], scenarios=SCENARIOS[:5], shapes=QUICK_SHAPES, seconds=3600, with_grid=False)
    else:
        work = cases(seeds, scenarios=SCENARIOS[: given.scenarios], with_grid=not given.no_grid)
    outcomes: list[Outcome] = []
    for outcome in run_all(work, jobs=given.jobs):
        outcomes.append(outcome)
        print(f"\r{len(outcomes)}/{len(work)} cases", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    order = [scenario.name for scenario in SCENARIOS]
    outcomes.sort(key=lambda one: (order.index(one.scenario), one.shape, one.seed))
    made = figures(outcomes)
    show(rows(outcomes))
    print(*(f"{name}: {value:.4g}" for name, value in made.items()), sep="\n")
    if given.json:
        given.json.write_text(json.dumps(made | {"outcomes": [asdict(one) for one in outcomes]}))
    return 0


def show(table: list[Row]) -> None:
    """The table, as Markdown."""
    print("|", " | ".join(COLUMNS), "|")
    print("|" + "---|" * len(COLUMNS))
    for row in table:
        hindsight = "–" if row.vs_hindsight is None else f"{row.vs_hindsight:.2f}"
        single = "–" if row.vs_single is None else f"{row.vs_single:.2f} ({row.single_kept})"
        cells = [
            row.scenario,
            f"{row.kept} of {row.possible}",
            f"{row.worst:.1%}",
            f"{row.vs_keda:.2f}",
            hindsight,
            single,
            str(row.busy_stopped),
            f"{row.scalings_vs_keda:.1f}",
        ]
        print("|", " | ".join(cells), "|")


if __name__ == "__main__":
    raise SystemExit(main())
