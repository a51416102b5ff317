"""What the autoscalers are compared on, and with which settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product

from claimq_bench.simulation.scalers import Fixed, Keda, KedaSettings, Knative, Scaler
from claimq_bench.simulation.traces import SHAPES, Service, Trace, make_trace
from claimq_bench.simulation.world import PodSettings

MAX_REPLICAS = 100
SECONDS = 3600.0
"""Length of a trace."""
TUNED_ON, JUDGED_ON = (1, 3), (11, 12, 13, 14, 15)
"""Seeds: the settings of the rule were chosen on the first, and it is judged on the others."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Service times, start-up time and target. ``scale`` keeps the work of longer items the same."""

    name: str
    service: Service
    start: float
    target_age: float
    scale: float = 1.0

    @property
    def pods(self) -> PodSettings:
        """How pods behave."""
        return PodSettings(start=self.start)


SCENARIOS = (
    Scenario("items of 2 s", Service(2.0), start=8, target_age=30),
    Scenario("items of 0.3 s", Service(0.3), start=8, target_age=30),
    Scenario("items of 2 s, heavy-tailed", Service(2.0, variation=3), start=8, target_age=30),
    Scenario("slow starts", Service(2.0), start=40, target_age=60),
    Scenario("items of 5 s, fast starts", Service(5.0), start=3, target_age=30, scale=0.4),
    Scenario("items of 20 s", Service(20.0), start=8, target_age=120, scale=0.1),
    Scenario("items of 60 s", Service(60.0), start=8, target_age=300, scale=1 / 30),
    Scenario("items become four times as long", Service(1.0, drift=4), start=8, target_age=30),
    Scenario("items become four times as short", Service(4.0, drift=0.25), start=8, target_age=30),
)
"""What every shape of arrivals is combined with."""


@dataclass(frozen=True, slots=True)
class Case:
    """One trace in one scenario with one seed: what the autoscalers are compared on."""

    scenario: Scenario
    shape: str
    seed: int

    @property
    def key(self) -> tuple[str, str, int]:
        """What names the case in files."""
        return self.scenario.name, self.shape, self.seed

    def trace(self) -> Trace:
        """The arrivals and service times."""
        made = self.scenario
        return make_trace(self.shape, self.seed, seconds=SECONDS, service=made.service, scale=made.scale)


def cases(
    seeds: Iterable[int], *, scenarios: Iterable[Scenario] = SCENARIOS, shapes: Iterable[str] = tuple(SHAPES)
) -> list[Case]:
    """Every combination."""
    return [Case(*one) for one in product(scenarios, shapes, seeds)]


KEDA, TUNED, KNATIVE, FIXED, CEILING = (
    "KEDA default",
    "KEDA tuned",
    "Knative-style",
    "fixed at mean load",
    "fixed at maximum",
)


def baselines(scenario: Scenario) -> dict[str, Callable[[], Scaler]]:
    """Name -> a fresh autoscaler, without those of the grid. KEDA tuned by its documentation: items that one pod starts
    within the target, a poll every 5 s, a window of 60 s."""
    mean = scenario.service.mean
    fitting = max(1, round(scenario.target_age / mean))
    tuned = KedaSettings(target=fitting, polling=5, cooldown=60, window=60, max_replicas=MAX_REPLICAS)
    return {
        KEDA: lambda: Keda(KedaSettings(max_replicas=MAX_REPLICAS), name=KEDA),
        TUNED: lambda: Keda(tuned, name=TUNED),
        KNATIVE: lambda: Knative(max_replicas=MAX_REPLICAS, name=KNATIVE),
        FIXED: lambda: Fixed(math.ceil(5 * scenario.scale * mean), name=FIXED),
        CEILING: lambda: Fixed(MAX_REPLICAS, name=CEILING),
    }


def grid() -> Iterator[KedaSettings]:
    """KEDA settings that a person might try: the best of them is known only in hindsight."""
    for target, window, least, (polling, is_limited) in product(
        (2, 3, 5, 8, 12, 15, 20, 30, 60), (300, 60, 15), (0, 1), ((30, True), (5, False))
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
