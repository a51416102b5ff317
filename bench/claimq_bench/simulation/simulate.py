"""Runs one simulation of a trace, pods and an autoscaler, and summarizes it."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import NamedTuple

from claimq_bench.simulation.limited import LimitedWorld, QueueLimits
from claimq_bench.simulation.scalers import Scaler
from claimq_bench.simulation.traces import Trace
from claimq_bench.simulation.world import TICKS, PodSettings, World

LONGEST_TAIL = 3600.0
"""Seconds after the trace in which the rest of the items must be done; a scaler that needs longer is stopped."""
_NOTICE = 0.2
"""Seconds from a first item until the scaler that it wakes decides."""


class Moment(NamedTuple):
    """One observation, for plots."""

    now: float
    waiting: int
    busy: int
    replicas: int
    ready: int


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one run."""

    trace: str
    scaler: str
    items: int
    started: int
    within_target: int
    wait_p99: float
    wait_max: float
    pod_seconds: float
    work: float
    busy_pods_stopped: int
    items_interrupted: int
    scalings: int
    pods_started: int
    seconds: float

    @property
    def share(self) -> float:
        """The share of all items that were first started within the target."""
        return self.within_target / self.items if self.items else 1.0


def simulate(
    trace: Trace,
    scaler: Scaler,
    pods: PodSettings,
    *,
    target_age: float,
    seed: int,
    is_woken: bool = False,
    watch: list[Moment] | None = None,
    held_by: QueueLimits | None = None,
) -> Result:
    """Runs the trace to its end and until every item is done (at most :data:`LONGEST_TAIL` longer).

    ``is_woken``: the scaler also looks when an item comes to an empty queue without pods. ``watch``
    collects every observation. ``held_by``: limits of the queue.
    """
    if held_by is None:
        world = World(trace, pods, seed=seed, victims=scaler.victims)
    else:
        world = LimitedWorld(trace, pods, held_by, seed=seed, victims=scaler.victims)
    look_at = 0.0
    while True:
        at = look_at
        if is_woken and world.now > 0 and not world.replicas and not world.waiting:
            arrival = world.next_arrival()
            if arrival is not None:
                at = min(look_at, max(world.now, arrival + _NOTICE))
        world.advance(at)
        wanted = scaler.decide(world)
        if watch is not None:
            watch.append(Moment(at, world.waiting, world.busy, world.replicas, world.ready))
        if wanted is not None:
            world.order(wanted)
        if (at >= trace.seconds and world.is_over) or at >= trace.seconds + LONGEST_TAIL:
            break
        look_at = scaler.next_look(at)
    return _result(trace, scaler, pods, world, target_age)


def _result(trace: Trace, scaler: Scaler, pods: PodSettings, world: World, target_age: float) -> Result:
    tally = world.finish()
    waits, limit = sorted(tally.waits), round(target_age * TICKS)
    return Result(
        trace=trace.name,
        scaler=scaler.name,
        items=len(trace.arrivals),
        started=len(waits),
        within_target=bisect_right(waits, limit),
        wait_p99=waits[min(len(waits) - 1, int(len(waits) * 0.99))] / TICKS if waits else 0.0,
        wait_max=waits[-1] / TICKS if waits else 0.0,
        pod_seconds=tally.pod_ticks / TICKS,
        work=trace.work / pods.slots,
        busy_pods_stopped=tally.busy_pods_stopped,
        items_interrupted=tally.items_interrupted,
        scalings=tally.scalings,
        pods_started=tally.pods_started,
        seconds=world.now,
    )
