"""claimq's rule, run afresh, beside the stored baselines: rows of a table, figures and the gates it has to pass."""

from __future__ import annotations

import multiprocessing
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from claimq_bench.scaling_study.baselines import SHARE, Baseline, Figures, name_of
from claimq_bench.scaling_study.scenarios import MAX_REPLICAS, SECONDS, Case
from claimq_bench.simulation.rule import Claimq
from claimq_bench.simulation.simulate import simulate
from claimq_control.manifest import ScalingSpec

_RESAMPLES = 400


@dataclass(frozen=True, slots=True)
class Outcome:
    """One case: what claimq did, and what the others did."""

    scenario: str
    shape: str
    seed: int
    start: float
    ours: Figures
    others: Baseline

    @property
    def vs_hindsight(self) -> float | None:
        """Pod-seconds by those of the cheapest KEDA setting that kept the target on this trace."""
        best = self.others.hindsight
        return None if best is None else self.ours.pod_seconds / best


def run(case: Case) -> Figures:
    """claimq with nothing but the target set."""
    scenario = case.scenario
    spec = ScalingSpec(target_age=scenario.target_age, max_replicas=MAX_REPLICAS)
    result = simulate(
        case.trace(),
        Claimq(spec),
        scenario.pods,
        target_age=scenario.target_age,
        seed=case.seed,
        is_woken=True,
    )
    return Figures.of(result)


def outcomes(work: list[Case], stored: dict[str, Baseline], *, jobs: int = 1) -> Iterator[Outcome]:
    """Each case as it is done, in the order of the cases."""
    if jobs == 1:
        found: Iterable[Figures] = map(run, work)
        yield from _beside(work, found, stored)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from _beside(work, pool.imap(run, work), stored)


def _beside(work: list[Case], found: Iterable[Figures], stored: dict[str, Baseline]) -> Iterator[Outcome]:
    for case, ours in zip(work, found, strict=True):
        scenario = case.scenario
        yield Outcome(scenario.name, case.shape, case.seed, scenario.start, ours, stored[name_of(case)])


@dataclass(frozen=True, slots=True)
class Row:
    """One scenario: totals over its traces and seeds. Ratios are of pod-seconds."""

    scenario: str
    possible: int
    kept: int
    worst: float
    p99: float
    vs_keda: float
    vs_keda_interval: tuple[float, float]
    """95 % of the totals of traces drawn again at random lie between."""
    vs_work: float
    vs_clairvoyant: float
    vs_hindsight: float
    """The worst shape, over its seeds."""
    vs_hindsight_trace: float
    """The worst single trace."""
    vs_single: float
    single_kept: int
    busy_stopped: int
    scalings_per_hour: float
    scalings_vs_keda: float


def rows(found: list[Outcome]) -> list[Row]:
    """A row for each scenario, in the order of the first outcomes."""
    names = dict.fromkeys(one.scenario for one in found)
    return [_row(name, [one for one in found if one.scenario == name]) for name in names]


def _row(name: str, found: list[Outcome]) -> Row:
    ours = [one.ours for one in found]
    possible = [one for one in found if one.others.is_possible]
    cost = sum(one.pod_seconds for one in ours)
    single_cost, single_kept = best_single(found)
    scalings = sum(one.scalings for one in ours)
    return Row(
        scenario=name,
        possible=len(possible),
        kept=sum(one.ours.share >= SHARE for one in possible),
        worst=min((one.ours.share for one in possible), default=1.0),
        p99=max(one.p99 for one in ours),
        vs_keda=_vs_keda(found),
        vs_keda_interval=_interval(found),
        vs_work=cost / sum(one.others.work for one in found),
        vs_clairvoyant=cost / sum(one.others.clairvoyant_pod_seconds for one in found),
        vs_hindsight=max(_by_shape(found).values(), default=0.0),
        vs_hindsight_trace=max((one.vs_hindsight or 0.0 for one in found), default=0.0),
        vs_single=cost / single_cost,
        single_kept=single_kept,
        busy_stopped=sum(one.busy_stopped for one in ours),
        scalings_per_hour=scalings / len(found) * 3600 / SECONDS,
        scalings_vs_keda=scalings / max(1, sum(one.others.keda.scalings for one in found)),
    )


def _vs_keda(found: list[Outcome]) -> float:
    return sum(one.ours.pod_seconds for one in found) / sum(one.others.keda.pod_seconds for one in found)


def _interval(found: list[Outcome]) -> tuple[float, float]:
    rng = random.Random(1)
    totals = sorted(_vs_keda(rng.choices(found, k=len(found))) for _ in range(_RESAMPLES))
    return totals[_RESAMPLES // 40], totals[-1 - _RESAMPLES // 40]


def _by_shape(found: list[Outcome]) -> dict[str, float]:
    ratios: dict[str, float] = {}
    for shape in dict.fromkeys(one.shape for one in found):
        pairs = [
            (one.ours.pod_seconds, one.others.hindsight)
            for one in found
            if one.shape == shape and one.others.hindsight is not None
        ]
        if pairs:
            ratios[shape] = sum(ours for ours, _ in pairs) / sum(best or 0.0 for _, best in pairs)
    return ratios


def best_single(found: list[Outcome]) -> tuple[float, int]:
    """Pod-seconds of the KEDA setting that keeps the target on most traces (the cheapest of these), and on how many."""
    columns = zip(*(one.others.grid for one in found), strict=True)
    tried = [(sum(share >= SHARE for _, share in one), -sum(cost for cost, _ in one)) for one in columns]
    kept, cost = max(tried)
    return -cost, kept


def figures(found: list[Outcome]) -> dict[str, float]:
    """The figures that are compared from release to release."""
    made = rows(found)
    return {
        "sim_share_within_target_min": min(row.worst for row in made),
        "sim_pod_seconds_vs_keda_default": _vs_keda(found),
        "sim_pod_seconds_vs_hindsight_max": max(row.vs_hindsight for row in made),
        "sim_busy_pods_stopped": float(sum(row.busy_stopped for row in made)),
        "sim_scalings_vs_keda_default": max(row.scalings_vs_keda for row in made),
        "sim_pod_seconds_vs_clairvoyant": sum(one.ours.pod_seconds for one in found)
        / sum(one.others.clairvoyant_pod_seconds for one in found),
    }


_VS_BEST = "pod-seconds by the best KEDA setting, worst shape"
_SCALINGS = "scalings by KEDA's defaults"


@dataclass(frozen=True, slots=True)
class Gate:
    """One requirement in one scenario: a figure, and what it may be at most."""

    scenario: str
    what: str
    found: float
    most: float

    @property
    def is_passed(self) -> bool:
        """Whether the figure is low enough."""
        return self.found <= self.most


def gates(found: list[Outcome], *, is_part: bool = False) -> Iterator[Gate]:
    """What is required, scenario by scenario. Of a part of the traces, only what holds for each of them."""
    slow = {one.scenario for one in found if one.start >= 20}
    for row in rows(found):
        is_long = row.scenario in ("items of 20 s", "items of 60 s")
        yield Gate(row.scenario, "traces that miss 99 % in time", row.possible - row.kept, 0)
        yield Gate(row.scenario, "busy pods stopped", row.busy_stopped, 0)
        # where even the clairvoyant plan costs more than 0.6 of KEDA's pods, a tenth more than the plan
        reachable = 1.1 * row.vs_keda / row.vs_clairvoyant
        most = 1.0 if is_long else max(0.6, reachable)
        yield Gate(row.scenario, "pod-seconds by KEDA's defaults", row.vs_keda, most)
        if is_part:
            continue
        most = 1.25 if row.scenario in slow else 1.1
        yield Gate(row.scenario, _VS_BEST, row.vs_hindsight, most)
        yield Gate(row.scenario, _SCALINGS, row.scalings_vs_keda, 2.0)
        if "four times" in row.scenario:
            yield Gate(row.scenario, "pod-seconds by the best single KEDA setting", row.vs_single, 1.0)
