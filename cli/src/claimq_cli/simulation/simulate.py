"""One run: a trace, pods and an autoscaler; and what came of it."""

from __future__ import annotations

from dataclasses import dataclass

from claimq_cli.simulation.scalers import Scaler
from claimq_cli.simulation.traces import Trace
from claimq_cli.simulation.world import PodSettings, World

LONGEST_TAIL = 3600.0
"""Seconds after the trace in which the rest of the items must be done; a scaler that needs longer is stopped."""
_NOTICE = 0.2
"""Seconds until a scaler that is woken by a first item looks."""


@dataclass(frozen=True, slots=True)
class Result:
    """What one run amounted to."""

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
    watch: list[tuple[float, int, int, int]] | None = None,
) -> Result:
    """Runs the trace to its end and until every item is done (at most :data:`LONGEST_TAIL` longer).

    ``is_woken``: the scaler also looks when an item comes to an empty queue without pods. ``watch``
    collects (instant, waiting, replicas, ready) at every look.
    """
    world = World(trace, pods, seed=seed, victims=scaler.victims)
    look_at = 0.0
    while True:
        at = look_at
        if is_woken and world.now > 0 and not world.has_pods and not world.has_waiting:
            arrival = world.next_arrival()
            if arrival is not None:
                at = min(look_at, max(world.now, arrival + _NOTICE))
        world.advance(at)
        view = world.view()
        wanted = scaler.decide(view)
        if wanted is not None and wanted != view.replicas:
            world.order(wanted)
        if watch is not None:
            watch.append((view.now, view.waiting, view.replicas, view.ready))
        is_past_end = view.now >= trace.seconds
        if (is_past_end and world.is_over) or view.now >= trace.seconds + LONGEST_TAIL:
            break
        look_at = scaler.next_look(view.now)
    return _result(trace, scaler, pods, world, target_age)


def _result(trace: Trace, scaler: Scaler, pods: PodSettings, world: World, target_age: float) -> Result:
    tally = world.finish()
    waits = sorted(tally.waits)
    return Result(
        trace=trace.name,
        scaler=scaler.name,
        items=len(trace.arrivals),
        started=len(waits),
        within_target=sum(wait <= target_age for wait in waits),
        wait_p99=waits[min(len(waits) - 1, int(len(waits) * 0.99))] if waits else 0.0,
        wait_max=waits[-1] if waits else 0.0,
        pod_seconds=tally.pod_seconds,
        work=trace.work / pods.slots,
        busy_pods_stopped=tally.busy_pods_stopped,
        items_interrupted=tally.items_interrupted,
        scalings=tally.scalings,
        pods_started=tally.pods_started,
        seconds=world.now,
    )
