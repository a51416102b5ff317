"""Many runs: claimq's rule beside other autoscalers, over traces, scenarios and seeds, and what was required of it."""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product

from claimq_cli.simulation.scalers import Claimq, Fixed, Keda, KedaSettings, Knative, Scaler
from claimq_cli.simulation.simulate import Result, simulate
from claimq_cli.simulation.traces import SHAPES, Service, make_trace
from claimq_cli.simulation.world import PodSettings
from claimq_spec.manifest import ScalingSpec

MAX_REPLICAS = 100
SHARE = 0.99
"""The share of items that has to start within the target."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Service times, start-up time and target. ``scale`` keeps the work of longer items the same."""

    name: str
    service: Service
    start: float
    target_age: float
    scale: float = 1.0


SCENARIOS = (
    Scenario("items of 2 s", Service(2.0), start=8, target_age=30),
    Scenario("items of 0.3 s", Service(0.3), start=8, target_age=30),
    Scenario("items of 2 s, heavy-tailed", Service(2.0, variation=3), start=8, target_age=30),
    Scenario("slow starts", Service(2.0), start=40, target_age=60),
    Scenario("items of 20 s", Service(20.0), start=8, target_age=120, scale=0.1),
    Scenario("items become four times as long", Service(1.0, drift=4), start=8, target_age=30),
    Scenario("items become four times as short", Service(4.0, drift=0.25), start=8, target_age=30),
)
"""What every shape of arrivals is combined with."""

CLAIMQ, KEDA, TUNED, KNATIVE, FIXED, CEILING = (
    "claimq",
    "KEDA default",
    "KEDA tuned",
    "Knative-style",
    "fixed at mean load",
    "fixed at maximum",
)


def grid() -> Iterator[KedaSettings]:
    """KEDA settings that a person might try: the best of them is known only in hindsight."""
    for target, window, least, (polling, is_limited) in product(
        (1, 2, 3, 5, 8, 12, 15, 20, 30, 60), (300, 60, 15), (0, 1), ((30, True), (1, False))
    ):
        yield KedaSettings(
            target=target,
            polling=polling,
            cooldown=window,
            window=window,
            min_replicas=least,
            max_replicas=MAX_REPLICAS,
            is_step_limited=is_limited,
        )


def scalers(scenario: Scenario) -> dict[str, Callable[[], Scaler]]:
    """Name -> a fresh autoscaler, without those of the grid. KEDA tuned by its documentation: items that one pod starts
    within the target, a poll every 5 s, a window of 60 s."""
    target, mean = scenario.target_age, scenario.service.mean
    tuned = KedaSettings(target=max(1, round(target / mean)), polling=5, cooldown=60, window=60)
    busy = math.ceil(5 * scenario.scale * mean)
    spec = ScalingSpec(target_age=target, max_replicas=MAX_REPLICAS)
    return {
        CLAIMQ: lambda: Claimq(spec, name=CLAIMQ),
        KEDA: lambda: Keda(name=KEDA),
        TUNED: lambda: Keda(tuned, name=TUNED),
        KNATIVE: lambda: Knative(max_replicas=MAX_REPLICAS, name=KNATIVE),
        FIXED: lambda: Fixed(busy, name=FIXED),
        CEILING: lambda: Fixed(MAX_REPLICAS, name=CEILING),
    }


@dataclass(frozen=True, slots=True)
class Case:
    """One trace in one scenario with one seed: what the autoscalers are compared on."""

    scenario: Scenario
    shape: str
    seed: int
    seconds: float
    with_grid: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a case. ``grid``: (pod-seconds, share) of each KEDA setting, in the order of :func:`grid`."""

    scenario: str
    shape: str
    seed: int
    results: dict[str, Result]
    grid: tuple[tuple[float, float], ...]

    @property
    def is_possible(self) -> bool:
        """Whether anything can start 99 % within the target: the maximum of pods all the time does."""
        return self.results[CEILING].share >= SHARE

    @property
    def hindsight(self) -> float | None:
        """Pod-seconds of the cheapest KEDA setting that kept the target on this very trace; None: none did."""
        return min((cost for cost, share in self.grid if share >= SHARE), default=None)


def run_case(case: Case) -> Outcome:
    """All autoscalers on one trace."""
    scenario = case.scenario
    trace = make_trace(
        case.shape, case.seed, seconds=case.seconds, service=scenario.service, scale=scenario.scale
    )
    pods = PodSettings(start=scenario.start)

    def run(scaler: Scaler, *, is_woken: bool = False) -> Result:
        return simulate(
            trace, scaler, pods, target_age=scenario.target_age, seed=case.seed, is_woken=is_woken
        )

    results = {name: run(make(), is_woken=name == CLAIMQ) for name, make in scalers(scenario).items()}
    tried = (run(Keda(settings)) for settings in grid()) if case.with_grid else ()
    costs = tuple((one.pod_seconds, one.share) for one in tried)
    return Outcome(scenario.name, case.shape, case.seed, results, costs)


def cases(
    seeds: Iterable[int],
    *,
    scenarios: Iterable[Scenario] = SCENARIOS,
    shapes: Iterable[str] = tuple(SHAPES),
    seconds: float = 7200.0,
    with_grid: bool = True,
) -> list[Case]:
    """Every combination."""
    return [
        Case(scenario, shape, seed, seconds, with_grid)
        for scenario, shape, seed in product(scenarios, shapes, seeds)
    ]


def run_all(work: list[Case], *, jobs: int) -> Iterator[Outcome]:
    """The outcomes as they come; the order does not matter to what is made of them."""
    if jobs == 1:
        yield from map(run_case, work)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(run_case, work)


# What is made of them ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Row:
    """One scenario: totals over its traces and seeds."""

    scenario: str
    possible: int
    kept: int
    worst: float
    vs_keda: float
    vs_hindsight: float | None
    """The worst trace's pod-seconds by those of the best KEDA setting for that trace."""
    vs_single: float | None
    """All pod-seconds by those of the KEDA setting that keeps the target on most traces, the cheapest of these."""
    single_kept: int
    busy_stopped: int
    scalings_vs_keda: float


def rows(outcomes: list[Outcome]) -> list[Row]:
    """A row for each scenario, in the order of the first outcomes."""
    names = dict.fromkeys(one.scenario for one in outcomes)
    return [_row(name, [one for one in outcomes if one.scenario == name]) for name in names]


def _row(name: str, outcomes: list[Outcome]) -> Row:
    ours = [one.results[CLAIMQ] for one in outcomes]
    keda = [one.results[KEDA] for one in outcomes]
    possible = [one for one in outcomes if one.is_possible]
    cost = sum(one.pod_seconds for one in ours)
    single_cost, single_kept = _best_single(outcomes)
    return Row(
        scenario=name,
        possible=len(possible),
        kept=sum(one.results[CLAIMQ].share >= SHARE for one in possible),
        worst=min((one.results[CLAIMQ].share for one in possible), default=1.0),
        vs_keda=cost / sum(one.pod_seconds for one in keda),
        vs_hindsight=_worst_by_shape(outcomes),
        vs_single=None if single_cost is None else cost / single_cost,
        single_kept=single_kept,
        busy_stopped=sum(one.busy_pods_stopped for one in ours),
        scalings_vs_keda=sum(one.scalings for one in ours) / max(1, sum(one.scalings for one in keda)),
    )


def _worst_by_shape(outcomes: list[Outcome]) -> float | None:
    ratios: list[float] = []
    for shape in dict.fromkeys(one.shape for one in outcomes):
        pairs = [
            (one.results[CLAIMQ].pod_seconds, one.hindsight)
            for one in outcomes
            if one.shape == shape and one.hindsight is not None
        ]
        if pairs:
            ratios.append(sum(ours for ours, _ in pairs) / sum(best or 0.0 for _, best in pairs))
    return max(ratios, default=None)


def _best_single(outcomes: list[Outcome]) -> tuple[float | None, int]:
    """Pod-seconds of the best single setting, and on how many traces it kept the target."""
    if not outcomes or not outcomes[0].grid:
        return None, 0
    best: tuple[int, float] | None = None
    for column in zip(*(one.grid for one in outcomes), strict=True):
        kept, cost = sum(share >= SHARE for _, share in column), sum(cost for cost, _ in column)
        if best is None or (kept, -cost) > (best[0], -best[1]):
            best = (kept, cost)
    return (None, 0) if best is None else (best[1], best[0])


def figures(outcomes: list[Outcome]) -> dict[str, float]:
    """The figures that are compared from release to release."""
    made = rows(outcomes)
    ours = sum(one.results[CLAIMQ].pod_seconds for one in outcomes)
    keda = sum(one.results[KEDA].pod_seconds for one in outcomes)
    hindsight = [row.vs_hindsight for row in made if row.vs_hindsight is not None]
    found = {
        "sim_share_within_target_min": min(row.worst for row in made),
        "sim_pod_seconds_vs_keda_default": ours / keda,
        "sim_busy_pods_stopped": float(sum(row.busy_stopped for row in made)),
        "sim_scalings_vs_keda_default": max(row.scalings_vs_keda for row in made),
    }
    if hindsight:
        found["sim_pod_seconds_vs_hindsight_max"] = max(hindsight)
    return found
