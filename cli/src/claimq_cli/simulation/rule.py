"""claimq's scaling rule in the simulation: the operator's function with the operator's inputs."""

from __future__ import annotations

from dataclasses import dataclass, field

from claimq_cli.simulation.world import Victims, View
from claimq_spec.manifest import ScalingSpec
from claimq_spec.scaling import Decision, ScalingState, Seen, decide


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
        """The decision of :func:`claimq_spec.scaling.decide`."""
        seen = Seen(
            main=view.waiting,
            busy=view.busy,
            replicas=view.replicas,
            ready=view.ready,
            busy_workers=view.busy_pods,
            starting=view.replicas - view.ready,
            oldest_age=view.oldest_age,
            claimed=view.claimed,
            slots=self.slots,
            starting_for=view.starting,
        )
        self.last = decide(self.spec, seen, self.state, view.now)
        self.state = self.last.state
        return self.last.replicas
