"""claimq's rule on queues with limits: no more workers than they let work, and as many as ever once they are lifted."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from claimq.limits import LimitsNow
from claimq.waiting.texts import read_limits
from claimq_bench.scaling_study.scenarios import KEDA, MAX_REPLICAS, SCENARIOS, baselines
from claimq_bench.scaling_study.study import Gate
from claimq_bench.simulation.limited import QueueLimits
from claimq_bench.simulation.rule import Claimq
from claimq_bench.simulation.scalers import Scaler
from claimq_bench.simulation.simulate import Moment, Result, simulate
from claimq_bench.simulation.traces import Trace, make_trace
from claimq_control.manifest import ScalingSpec

_SCENARIO = SCENARIOS[0]
_SPEC = ScalingSpec(target_age=_SCENARIO.target_age, max_replicas=MAX_REPLICAS)
_SECONDS, _LIFTED = 1200.0, 600.0
_SEED = 11
_LEARNING = 60.0
"""Seconds in which the rule may still use the service time that it assumes, a tenth of the target."""
_SPREAD = 1.3
"""The estimate of the service time of random items may be so many times too high."""
_UNUSED = 0.15
"""A burst of 1 is lost whenever random items keep as many slots busy as the rate needs on average."""


@dataclass(frozen=True)
class LimitCase:
    """Items of 2 s on average arrive ``scale`` times 5 a second, or a batch of items of exactly 2 s. Limits hold until
    an instant."""

    limits: str
    scale: float = 4.0
    slots: int = 1
    until: float = _SECONDS
    is_batch: bool = False

    @property
    def name(self) -> str:
        """The limits as people write them."""
        arrivals = "a batch" if self.is_batch else f"{5 * self.scale:.0f} arrive a second"
        lift = f", lifted after {self.until:.0f} s" if self.until < _SECONDS else ""
        return f"{self.limits}{lift}; {arrivals}; concurrency {self.slots}"

    @property
    def held_by(self) -> QueueLimits:
        """The limits."""
        return QueueLimits(read_limits(self.limits), self.until)

    @cached_property
    def trace(self) -> Trace:
        """The arrivals."""
        trace = make_trace("steady", _SEED, seconds=_SECONDS, service=_SCENARIO.service, scale=self.scale)
        count = len(trace.arrivals)
        batch = replace(trace, arrivals=(0.0,) * count, services=(_SCENARIO.service.mean,) * count)
        return batch if self.is_batch else trace

    def workers(self, service: float) -> int:
        """How many the limits let work at once, if an item takes so many seconds."""
        return math.ceil(self._slots(service) / self.slots)

    def use(self, first: Moment, last: Moment) -> float:
        """The share that starts between two moments of what the limits let start."""
        before, after = (
            bisect_right(self.trace.arrivals, moment.now) - moment.waiting for moment in (first, last)
        )
        mean = sum(self.trace.services[before:after]) / (after - before)
        return (after - before) * mean / self._slots(mean) / (last.now - first.now)

    def _slots(self, service: float) -> float:
        return LimitsNow(self.held_by.limits, 1, None).useful_slots(service, 0)

    def run(self, scaler: Scaler, watch: list[Moment], free: Trace | None = None) -> Result:
        """One run; of another trace if one is given, and then without limits."""
        return simulate(
            free or self.trace,
            scaler,
            replace(_SCENARIO.pods, slots=self.slots),
            target_age=_SCENARIO.target_age,
            seed=_SEED,
            is_woken=isinstance(scaler, Claimq),
            watch=watch,
            held_by=self.held_by if free is None else None,
        )

    def claimq(self, watch: list[Moment], free: Trace | None = None) -> Result:
        """One run of claimq's rule."""
        return self.run(Claimq(_SPEC, slots=self.slots), watch, free)


SCARCE = (
    LimitCase("api:rate=10/s"),
    LimitCase("api:rate=10/s", is_batch=True),
    LimitCase("api:rate=10/s", slots=4),
    LimitCase("api:rate=600/m;day:rate=7200/h"),
    LimitCase("licences:busy=7"),
    LimitCase("api:rate=10/s;licences:busy=7"),
)
"""More items arrive than the limits let start."""
AMPLE = (LimitCase("api:rate=10/s", scale=1.0), LimitCase("licences:busy=40", scale=1.0))
LIFTED = LimitCase("api:rate=10/s", until=_LIFTED)


def gates_at_limits() -> Iterator[Gate]:
    """What is required of queues with limits."""
    for case in SCARCE:
        yield from _while_it_holds(case)
    for case in AMPLE:
        result, free = case.claimq([]), case.claimq([], case.trace)
        yield Gate(case.name, "share of items that start late", 1 - result.share, 0.01)
        yield Gate(
            case.name, "pod-seconds by those without limits", result.pod_seconds / free.pod_seconds, 1.1
        )
    yield from _after_it_is_lifted(LIFTED)


def _while_it_holds(case: LimitCase) -> Iterator[Gate]:
    watch: list[Moment] = []
    result = case.claimq(watch)
    held = [moment for moment in watch if moment.now < case.until]
    later = [moment for moment in held if moment.now >= _LEARNING]
    mean = _SCENARIO.service.mean
    at_first = case.workers(_SPREAD * max(mean, _SPEC.target_age / 10))
    yield Gate(case.name, "workers at first", max(moment.replicas for moment in held), at_first)
    yield Gate(case.name, "workers", max(moment.replicas for moment in later), case.workers(_SPREAD * mean))
    yield Gate(case.name, "share of the limit that is not used", 1 - case.use(later[0], later[-1]), _UNUSED)
    yield Gate(case.name, "busy pods stopped", result.busy_pods_stopped, 0)


def _after_it_is_lifted(case: LimitCase) -> Iterator[Gate]:
    """Beside a queue without limits that gets at this instant all that waits then."""
    watch: list[Moment] = []
    case.claimq(watch)
    waiting = next(moment.waiting for moment in watch if moment.now >= case.until)
    came = sum(at <= case.until for at in case.trace.arrivals)
    arrivals = [max(at, case.until) for at in case.trace.arrivals[came - waiting :]]
    bulk = replace(case.trace, arrivals=tuple(arrivals), services=case.trace.services[came - waiting :])
    others: list[Moment] = []
    case.claimq(others, bulk)
    ratio = _emptied(watch) / _emptied(others)
    yield Gate(case.name, "time to work off what waits, by that of a queue without limits", ratio, 1.0)


def _emptied(watch: list[Moment]) -> float:
    """Seconds from the lift until what waits is at most a second's arrivals."""
    return next(one.now for one in watch if one.now > _LIFTED + 1 and one.waiting <= 20) - _LIFTED


def keda_at_limit() -> tuple[float, float]:
    """The pod-seconds of claimq's rule and of KEDA with its defaults at a rate of 10/s, by the work."""
    case = SCARCE[0]
    runs = (case.claimq([]), case.run(baselines(_SCENARIO)[KEDA](), []))
    mine, others = (run.pod_seconds / run.work for run in runs)
    return mine, others
