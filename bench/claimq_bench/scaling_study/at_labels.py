"""claimq's rule where limits hold for each client or key, or count costs: beside 100 workers on the same queue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean

from claimq.waiting.texts import read_limits
from claimq_bench.scaling_study.scenarios import MAX_REPLICAS
from claimq_bench.scaling_study.study import Gate
from claimq_bench.simulation.limited import QueueLimits
from claimq_bench.simulation.mix import Mix
from claimq_bench.simulation.rule import Claimq
from claimq_bench.simulation.scalers import Fixed, Scaler
from claimq_bench.simulation.simulate import Moment, Result, simulate
from claimq_bench.simulation.traces import Service, Trace, make_trace
from claimq_bench.simulation.world import PodSettings
from claimq_control.manifest import ScalingSpec

_SECONDS, _TARGET, _SEED = 600.0, 30.0, 11
_LEARNING = 60.0
"""Seconds in which workers start and the rule may still use the service time that it assumes."""
_MOST_HIGHEST = 2.1
"""A worker that starts for an item comes seconds later, when the limits may let another number start."""


@dataclass(frozen=True)
class LabelCase:
    """Items that arrive steadily, so many a second, and wait for limits for which they have labels."""

    name: str
    limits: str
    mix: Mix
    arrivals: float = 20.0
    service: float = 2.0
    most_ordered: float = 1.3
    """Worker-seconds after the first minute, by those in which 100 workers work."""
    shape: str = "steady"

    @cached_property
    def trace(self) -> Trace:
        """The arrivals."""
        return make_trace(
            self.shape, _SEED, seconds=_SECONDS, service=Service(self.service), scale=self.arrivals / 5
        )

    def run(self, scaler: Scaler, watch: list[Moment], limits: str | None = None) -> Result:
        """One run, with these limits rather than its own if some are given."""
        return simulate(
            self.trace,
            scaler,
            PodSettings(),
            target_age=_TARGET,
            seed=_SEED,
            is_woken=isinstance(scaler, Claimq),
            watch=watch,
            held_by=QueueLimits(read_limits(self.limits if limits is None else limits), mix=self.mix),
        )


@dataclass(frozen=True)
class Compared:
    """claimq's rule beside a fixed number of workers that is above what the limits let work."""

    ours: Result
    others: Result
    watch: list[Moment] = field(repr=False)
    others_watch: list[Moment] = field(repr=False)

    @classmethod
    def of(cls, case: LabelCase) -> Compared:
        """Both runs of a case."""
        watch, others_watch = list[Moment](), list[Moment]()
        ours = case.run(Claimq(ScalingSpec(target_age=_TARGET, max_replicas=MAX_REPLICAS)), watch)
        return cls(ours, case.run(Fixed(MAX_REPLICAS), others_watch), watch, others_watch)

    @property
    def ordered(self) -> float:
        """Workers ordered, by those of use: those that work where there are always enough."""
        return _mean(self.watch, "replicas") / _mean(self.others_watch, "busy")

    @property
    def highest(self) -> float:
        """The most workers that were ordered after the first minute, by the most that were of use."""
        most = max(moment.busy for moment in self.others_watch)
        return max(moment.replicas for moment in _loaded(self.watch)) / most

    @property
    def unused(self) -> float:
        """The share of what the limits let work that does not."""
        return 1 - _mean(self.watch, "busy") / _mean(self.others_watch, "busy")


def _loaded(watch: list[Moment]) -> list[Moment]:
    return [moment for moment in watch if _LEARNING <= moment.now < _SECONDS]


def _mean(watch: list[Moment], what: str) -> float:
    """Of the seconds with load. Looks may be further apart than a second."""
    return fmean(getattr(moment, what) for moment in _loaded(watch))


_TEN = Mix(clients=(81.0, *[1.0] * 9))
_HUNDRED = Mix(clients=(1.0,) * 100)
_COSTS = (1, 2, 4, 8)
CASES = (
    LabelCase("ten clients, 2 busy each, one has 90 %", "own:per=client,busy=2", _TEN, most_ordered=1.6),
    LabelCase("100 clients at 1/s, 120 arrive", "own:per=client,rate=1/s", _HUNDRED, 120.0, 0.5),
    LabelCase("100 clients at 1/s, 50 arrive", "own:per=client,rate=1/s", _HUNDRED, 50.0, 0.5),
    LabelCase("100 clients at 6/m, 8 arrive", "own:per=client,rate=6/m,burst=3", _HUNDRED, 8.0, 10.0),
    LabelCase("100 clients, 1 busy each, 20 arrive", "own:per=client,busy=1", _HUNDRED),
    LabelCase("five keys have 90 %", "", Mix(keys=5, keyed=0.9)),
    LabelCase("two keys have all, 40 arrive", "", Mix(keys=2), 40.0, most_ordered=2.0),
    LabelCase("ten keys at 30/m", "own:per=key,rate=30/m", Mix(keys=10)),
    LabelCase("costs of 40 busy", "gpu:busy=40,unit=cost", Mix(costs=_COSTS), most_ordered=1.45),
    LabelCase("costs of 40/s", "api:rate=40/s,burst=40,unit=cost", Mix(costs=_COSTS), most_ordered=1.5),
    LabelCase(
        "ten clients, costs of 8 busy each, one has 90 %",
        "own:per=client,busy=8,unit=cost",
        Mix(clients=_TEN.clients, costs=_COSTS),
        most_ordered=1.6,
    ),
)


def gates_with_labels() -> Iterator[Gate]:
    """What is required of all cases."""
    for case in CASES:
        yield from gates_of(case)


def gates_of(case: LabelCase) -> Iterator[Gate]:
    """What is required of one."""
    found = Compared.of(case)
    yield Gate(case.name, "workers by those of use", found.ordered, case.most_ordered)
    yield Gate(case.name, "most workers by the most of use", found.highest, _MOST_HIGHEST)
    yield Gate(case.name, "share of the limits that is not used", found.unused, 0.1)
    late = found.others.share - found.ours.share
    yield Gate(case.name, "share of items late, above that of 100 workers", late, 0.05)
    yield Gate(case.name, "busy pods stopped", found.ours.busy_pods_stopped, 0)
