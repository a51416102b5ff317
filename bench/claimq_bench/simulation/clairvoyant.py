"""A scaler that knows the future: the fewest pod-seconds in which the items of a trace start in time.

It plans pods, one item at a time. An item goes to the pod that is free last but still in time, so that the others
can end. A pod that would be idle for longer than a start takes is ended, and another one is ordered in time.
A new pod is ordered early enough to be ready when the item comes, or later by as much as it may wait. Every
delay is tried, and the cheapest plan counts. The true minimum cannot be computed in reasonable time: this is
a feasible plan, and no autoscaler that has to guess is expected to reach it.
"""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass

from claimq_bench.simulation.traces import Trace
from claimq_bench.simulation.world import TICKS, PodSettings

_DELAYS = (0.0, 0.3, 0.6, 0.9)
"""Shares of the target by which the start of a new pod may be delayed."""


@dataclass(frozen=True, slots=True)
class Plan:
    """``share``: of the items that start within the target."""

    share: float
    pod_seconds: float
    pods_started: int


def clairvoyant(trace: Trace, pods: PodSettings, *, target_age: float, most: int, seed: int) -> Plan:
    """The cheapest plan for at most ``most`` pods that starts the most items within ``target_age``.

    Slots are planned as pods of their own, and their time is divided by ``pods.slots``.
    """
    limit, slots = round(target_age * TICKS), most * pods.slots
    plans = [_plan(trace, pods, limit, round(delay * limit), slots, seed) for delay in _DELAYS]
    return min(plans, key=lambda plan: (-min(plan.share, 0.9999), plan.pod_seconds))


def _starts(pods: PodSettings, seed: int) -> Iterator[int]:
    rng = random.Random(f"pods/{seed}")
    while True:
        yield round(pods.draw_start(rng) * TICKS)


def _plan(trace: Trace, pods: PodSettings, limit: int, delay: int, most: int, seed: int) -> Plan:
    starts, cost, opened, in_time = _starts(pods, seed), 0, 0, 0
    start = next(starts)
    free: list[int] = []
    """When each pod that was not ended is free, in order."""
    for came, takes in zip(*trace.ticks, strict=True):
        ended = bisect_left(free, came - start)
        if ended:  # their idle time would cost more than another start
            del free[:ended]
        place = bisect_right(free, came + limit) - 1
        if place < 0 and len(free) < most:
            ready = max(came + delay, start)  # nothing can be ordered before the trace begins
            cost, opened, start = cost + start, opened + 1, next(starts)
        else:
            ready = free.pop(max(place, 0))
            cost += max(0, came - ready)
        begin = max(came, ready)
        cost += takes
        in_time += begin - came <= limit
        insort(free, begin + takes)
    return Plan(in_time / max(1, len(trace.arrivals)), cost / TICKS / pods.slots, opened)
