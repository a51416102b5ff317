"""``make scaling-study``: claimq's scaling rule beside other autoscalers, in simulation.

Usage: run_scaling_study.py [--json FILE] [--quick] [--docs FILE] [--baselines] [--jobs N]. Runs claimq's rule on all
cases and compares it with the stored outcomes of the other autoscalers; exits with 1 when a requirement is not met.
--docs writes the tables into that page; --baselines computes the other autoscalers again first (ten minutes of one
core; it can be interrupted and continues where it stopped).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from claimq_bench.scaling_study import baselines
from claimq_bench.scaling_study.at_labels import gates_with_labels
from claimq_bench.scaling_study.at_limits import gates_at_limits
from claimq_bench.scaling_study.report import replaced, report
from claimq_bench.scaling_study.scenarios import JUDGED_ON, SCENARIOS, Case, cases
from claimq_bench.scaling_study.study import Outcome, figures, gates, outcomes

QUICK_SHAPES = ("batch", "flash-crowd", "on-off", "sparse")
UNFINISHED = Path("build/simulated-baselines.jsonl")


def main() -> int:
    """Runs the study and prints it."""
    parser = argparse.ArgumentParser(
        description="claimq's scaling rule beside other autoscalers, in simulation"
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--docs", type=Path, help="the page that gets the tables")
    parser.add_argument("--quick", action="store_true", help="one seed, four shapes, six scenarios")
    parser.add_argument("--baselines", action="store_true", help="compute the other autoscalers again")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    if given.baselines:
        compute_baselines()
    digest, stored = baselines.load()
    if digest != baselines.digest():
        print(
            "the model has changed since the baselines were computed: run with --baselines", file=sys.stderr
        )
        return 2
    work = cases(JUDGED_ON)
    if given.quick:
        work = cases(JUDGED_ON[:1], scenarios=[*SCENARIOS[:4], *SCENARIOS[7:]], shapes=QUICK_SHAPES)
    found = [show_progress(one, len(work), number) for number, one in counted(work, stored, given.jobs)]
    print(report(found, is_part=given.quick))
    at_limits = [*gates_at_limits(), *gates_with_labels()]
    print(
        *(f"{gate.scenario}: {gate.what}: {gate.found:.2f} (<= {gate.most:.2f})" for gate in at_limits),
        sep="\n",
    )
    made = figures(found)
    print(*(f"{name}: {value:.4g}" for name, value in made.items()), sep="\n")
    if given.json:
        cases_made = [asdict(one) | {"others": None} for one in found]
        given.json.write_text(json.dumps(made | {"outcomes": cases_made}))
    if given.docs:
        given.docs.write_text(replaced(given.docs.read_text(), report(found)))
    return 0 if all(gate.is_passed for gate in [*gates(found, is_part=given.quick), *at_limits]) else 1


def counted(work: list[Case], stored: dict[str, baselines.Baseline], jobs: int) -> enumerate[Outcome]:
    """The outcomes as they come, numbered from 1."""
    return enumerate(outcomes(work, stored, jobs=jobs), start=1)


def show_progress(one: Outcome, count: int, number: int) -> Outcome:
    """The outcome, after a line on standard error."""
    print(f"\r{number}/{count} traces", end="\n" if number == count else "", file=sys.stderr, flush=True)
    return one


def compute_baselines() -> None:
    """All other autoscalers on all cases."""
    work = cases(JUDGED_ON)
    UNFINISHED.parent.mkdir(exist_ok=True)
    for number in baselines.compute_all(work, UNFINISHED):
        print(f"\rbaselines: {number}/{len(work)} traces", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    baselines.store(work, UNFINISHED)
    UNFINISHED.unlink()


if __name__ == "__main__":
    raise SystemExit(main())
