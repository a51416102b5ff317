"""claimq's scaling rule in the simulation: the operator's function with the operator's inputs."""

from __future__ import annotations

from dataclasses import dataclass, field

from claimq.model import COUNTERS, Snapshot, State
from claimq_bench.simulation.limited import LimitedWorld
from claimq_bench.simulation.world import Victims, View
from claimq_control.manifest import ScalingSpec
from claimq_control.scaling import Decision, ScalingState, decide, observe


@dataclass(slots=True)
class Claimq:
    """claimq's own rule: the function that the operator calls, on what the operator sees."""

    spec: ScalingSpec
    slots: int = 1
    period: float = 1.0
    name: str = "claimq"
    victims: Victims = Victims.IDLE
    state: ScalingState = field(default_factory=ScalingState)
    last: Decision | None = None

    def next_look(self, now: float) -> float:
        """Every second, as the operator does while there are items or workers."""
        return now + self.period

    def decide(self, view: View) -> int | None:
        """The decision of :func:`claimq_control.scaling.decide`."""
        observation = observe(
            snapshot_of(view),
            replicas=view.replicas,
            ready=view.ready,
            busy=view.busy_pods,
            slots=self.slots,
            starting_for=view.starting,
        )
        self.last = decide(self.spec, observation, self.state, view.now)
        self.state = self.last.state
        return self.last.replicas


def snapshot_of(view: View) -> Snapshot:
    """What the server would answer. A simulated queue is never paused, and delays items only for the rates of keys."""
    limited = view if isinstance(view, LimitedWorld) else None
    return Snapshot(
        now=view.now,
        seq=0,
        lengths={**dict.fromkeys(State, 0), State.MAIN: view.waiting, State.BUSY: view.busy},
        ages={**dict.fromkeys(State), State.MAIN: view.oldest_age},
        counters={**dict.fromkeys(COUNTERS, 0), "claimed": view.claimed},
        next_due_in=limited.next_due_in if limited else None,
        paused=False,
        due_soon=limited.due_soon if limited else 0,
        key_busy=limited.key_busy if limited else 0,
        limits=view.limits,
    )
