"""The other autoscalers' outcomes: computed once, kept as a table, read by the comparison.

They depend on the traces, the model of the pods and the models of those autoscalers only, not on claimq's rule. The
table carries the digest of that source; ``make scaling-study BASELINES=1`` computes it again.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import claimq_bench.scaling_study.scenarios as scenarios_source
import claimq_bench.simulation.clairvoyant as clairvoyant_source
import claimq_bench.simulation.scalers as scalers_source
import claimq_bench.simulation.simulate as simulate_source
import claimq_bench.simulation.traces as traces_source
import claimq_bench.simulation.world as world_source
from claimq_bench.scaling_study.scenarios import CEILING, KEDA, MAX_REPLICAS, Case, baselines, grid
from claimq_bench.simulation.clairvoyant import clairvoyant
from claimq_bench.simulation.scalers import Keda, Scaler
from claimq_bench.simulation.simulate import Result, simulate

TABLE = Path(__file__).with_name("baselines.json")
SHARE = 0.99
"""The share of items that has to start within the target."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What one autoscaler did in one case."""

    share: float
    p99: float
    pod_seconds: float
    busy_stopped: int
    scalings: int

    @classmethod
    def of(cls, one: Result) -> Figures:
        """The figures of a run, rounded as they are stored."""
        return cls(
            share=round(one.share, 5),
            p99=round(one.wait_p99, 2),
            pod_seconds=round(one.pod_seconds, 1),
            busy_stopped=one.busy_pods_stopped,
            scalings=one.scalings,
        )


@dataclass(frozen=True, slots=True)
class Baseline:
    """One case under all other autoscalers. ``grid``: (pod-seconds, share) of each setting of :func:`grid`."""

    items: int
    work: float
    scalers: dict[str, Figures]
    clairvoyant_share: float
    clairvoyant_pod_seconds: float
    grid: tuple[tuple[float, float], ...]

    @property
    def is_possible(self) -> bool:
        """Whether 99 % can start in time: by the clairvoyant plan, or with the maximum of pods all the time."""
        return max(self.clairvoyant_share, self.scalers[CEILING].share) >= SHARE

    @property
    def keda(self) -> Figures:
        """KEDA with its defaults."""
        return self.scalers[KEDA]

    @property
    def hindsight(self) -> float | None:
        """Pod-seconds of the cheapest KEDA setting that kept the target on this very trace; None: none did, or no item
        came."""
        return min((cost for cost, share in self.grid if share >= SHARE), default=None) or None

    def to_json(self) -> list[Any]:
        """A compact row: names are left out."""
        figures = [
            [one.share, one.p99, one.pod_seconds, one.busy_stopped, one.scalings]
            for one in self.scalers.values()
        ]
        plan = [self.clairvoyant_share, self.clairvoyant_pod_seconds]
        tried = [[round(cost), int(share * 10_000) / 10_000] for cost, share in self.grid]
        return [self.items, self.work, figures, plan, tried]

    @classmethod
    def from_json(cls, row: list[Any], names: list[str]) -> Baseline:
        """What :meth:`to_json` wrote, with the names of the autoscalers."""
        items, work, figures, plan, tried = row
        found = {name: Figures(*one) for name, one in zip(names, figures, strict=True)}
        return cls(items, work, found, plan[0], plan[1], tuple((cost, share) for cost, share in tried))


def compute(case: Case) -> Baseline:
    """All other autoscalers on one trace."""
    scenario, trace, pods = case.scenario, case.trace(), case.scenario.pods

    def run(scaler: Scaler) -> Result:
        return simulate(trace, scaler, pods, target_age=scenario.target_age, seed=case.seed)

    plan = clairvoyant(trace, pods, target_age=scenario.target_age, most=MAX_REPLICAS, seed=case.seed)
    tried = [run(Keda(settings)) for settings in grid()]
    return Baseline(
        items=len(trace.arrivals),
        work=round(trace.work / pods.slots, 1),
        scalers={name: Figures.of(run(make())) for name, make in baselines(scenario).items()},
        clairvoyant_share=round(plan.share, 5),
        clairvoyant_pod_seconds=round(plan.pod_seconds, 1),
        grid=tuple((one.pod_seconds, one.share) for one in tried),
    )


@cache
def digest() -> str:
    """Of the code that the table depends on; comments and docstrings do not count."""
    sources = (
        world_source,
        traces_source,
        simulate_source,
        scalers_source,
        clairvoyant_source,
        scenarios_source,
    )
    found = hashlib.sha256()
    for module in sources:
        found.update(_code(inspect.getsource(module)).encode())
    return found.hexdigest()[:16]


def _code(source: str) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            node.body = [one for one in node.body if not _is_text(one)]
    return ast.dump(tree)


def _is_text(node: ast.stmt) -> bool:
    is_constant = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_constant and isinstance(ast.literal_eval(ast.unparse(node)), str)


def compute_all(work: list[Case], rows: Path) -> Iterator[int]:
    """Adds a line for each case that ``rows`` lacks; yields how many are done. An interrupted run can go on."""
    done = _finished(rows)
    for number, case in enumerate(work, start=1):
        name = name_of(case)
        if name not in done:
            with rows.open("a") as file:
                file.write(_compact([digest(), name, compute(case).to_json()]) + "\n")
        yield number


def _finished(rows: Path) -> dict[str, list[Any]]:
    """Rows by case, of those that were made with the source as it is now."""
    lines = [json.loads(line) for line in rows.read_text().splitlines()] if rows.exists() else []
    return {name: row for source, name, row in lines if source == digest()}


def store(work: list[Case], rows: Path, table: Path = TABLE) -> None:
    """The table from all lines, in the order of the cases, with the digest of its source."""
    found, names = _finished(rows), list(baselines(work[0].scenario))
    lines = ",\n".join(f"{json.dumps(name_of(case))}:{_compact(found[name_of(case)])}" for case in work)
    table.write_text(f'{{"digest":"{digest()}","scalers":{json.dumps(names)},"cases":{{\n{lines}\n}}}}\n')


def load(table: Path = TABLE) -> tuple[str, dict[str, Baseline]]:
    """The digest that the table was made with, and the baselines by case (:func:`name_of`)."""
    stored = json.loads(table.read_text())
    rows = stored["cases"].items()
    return stored["digest"], {name: Baseline.from_json(row, stored["scalers"]) for name, row in rows}


def _compact(row: list[Any]) -> str:
    return json.dumps(row, separators=(",", ":"))


def name_of(case: Case) -> str:
    """What names the case in the table."""
    return "/".join(map(str, case.key))
