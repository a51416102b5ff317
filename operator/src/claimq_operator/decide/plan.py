"""Plans one pass: the children, deletion costs, number of workers and status of a queue. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from claimq_control import scale_down
from claimq_control.manifest import QueueSpec
from claimq_control.scale_down import Marks, Step
from claimq_control.scaling import Decision, Estimates, ScalingState, Seen, Workers, decide, observation
from claimq_kubernetes.labels import FIELD_MANAGER, SCALE_MANAGER
from claimq_kubernetes.port import Json, part
from claimq_kubernetes.timestamps import parse_time
from claimq_operator.children.budget import budget
from claimq_operator.children.deployment import deployment
from claimq_operator.children.restrictions import refused
from claimq_operator.decide.conditions import View
from claimq_operator.decide.observed import Observed
from claimq_operator.decide.status import build
from claimq_operator.fault import OWNED_BY_ANOTHER, Fault
from claimq_operator.settings import OperatorSettings

CONTEST_SECONDS = 600.0
"""How long another owner of the number of workers is reported after it set the number last."""
_FIRST_APPLY = "before-first-apply"
"""The owner that the API server enters for fields without one."""


@dataclass(frozen=True, slots=True)
class Contest:
    """Another field manager that has set the number of workers, and when that was seen last, by the caller's clock."""

    manager: str
    at: float


@dataclass(frozen=True, slots=True)
class Memory:
    """State that one pass keeps for the next. It may be lost: with an empty one the operator only scales down later."""

    scaling: ScalingState = field(default_factory=ScalingState)
    marks: Marks = field(default_factory=Marks)
    contest: Contest | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do in one pass, in the order of the fields."""

    children: tuple[Json, ...] = ()
    """Objects to apply if they differ from what was applied last."""
    hold_replicas: int | None = None
    """The number of replicas to apply as the scale field manager before the children; see :func:`replicas_to_hold`."""
    costs: dict[str, int] = field(default_factory=dict[str, int])
    """Deletion costs to write, by pod name."""
    replicas: int | None = None
    """The number of workers to set; None: no change."""
    status: Json = field(default_factory=dict[str, Any])
    decision: Decision | None = None
    memory: Memory = field(default_factory=Memory)


def plan(observed: Observed, memory: Memory, settings: OperatorSettings, *, now: float, clock: float) -> Plan:
    """Plans one pass over one queue.

    ``now``: Unix seconds, for the status. ``clock``: monotonic seconds, for everything else.
    """
    resource, spec = observed.resource, observed.resource.spec
    if spec is None:
        view = View(observed, None, observed.replicas)
        return Plan(status=build(view, None, now=now), memory=memory)
    seen = seen_for_scaling(observed, spec.worker.concurrency, now)
    decision = decide(spec.scaling, seen, _continued(observed, memory), clock)
    contest = _contest(observed, decision, memory, clock)
    wanted = _wanted(observed, spec, decision)
    made = deployment(resource, spec, settings, replicas=wanted if observed.deployment is None else None)
    step = _change(observed, spec, decision, memory, clock)
    decision = replace(decision, reason=f"{decision.reason}{_held(step)}")
    view = View(
        observed, decision, wanted, made.left_out, "" if contest is None else contest.manager, _held(step)
    )
    if resource.is_paused:
        view = View(observed, decision, observed.replicas, made.left_out)
        return Plan(status=build(view, seen, now=now), decision=decision, memory=memory)
    kept = Memory(decision.state, step.marks, contest)
    planned = Plan(costs=step.costs, replicas=step.replicas, decision=decision, memory=kept)
    if (refusal := refused(spec.worker.template, settings.workers_may)) != "":
        fault = Fault("TemplateForbidden", refusal, needs_action=True, denied=True)
        return _denied(replace(observed, refusal=fault), seen, planned, fault, now)
    if observed.redis_fault is not None and observed.redis_fault.denied:
        return _denied(observed, seen, planned, observed.redis_fault, now)
    return replace(
        planned,
        children=(made.body, budget(resource, is_on=spec.worker.disruption_budget)),
        hold_replicas=replicas_to_hold(observed),
        status=build(view, seen, now=now),
    )


def _denied(observed: Observed, seen: Seen | None, planned: Plan, fault: Fault, now: float) -> Plan:
    """The plan for a queue that may not be used as its manifest asks: apply no children and add no workers.

    If another object owns the queue, remove all workers: they would process the other object's items.
    """
    current, decided = observed.replicas, planned.decision
    wanted = None if decided is None else decided.replicas
    if fault.reason == OWNED_BY_ANOTHER:
        planned, wanted = replace(planned, costs={}, replicas=0 if current else None), 0
    elif wanted is None or wanted >= current:
        planned, wanted = replace(planned, costs={}, replicas=None), current
    return replace(planned, status=build(View(observed, decided, wanted), seen, now=now))


def _continued(observed: Observed, memory: Memory) -> ScalingState:
    """The scaling state of the previous pass; in the first pass of a process, from the estimates in the status."""
    if memory.scaling.seen_at is not None or memory.scaling.estimates.at is not None:
        return memory.scaling
    stored = part(part(observed.resource.status, "scaling"), "estimates")
    return replace(memory.scaling, estimates=Estimates.from_json(stored)) if stored else memory.scaling


def seen_for_scaling(observed: Observed, slots: int, now: float) -> Seen | None:
    """The input of the scaling rule; None while the queue is unknown. ``now``: Unix seconds."""
    snapshot = observed.snapshot
    if snapshot is None:
        return None
    starting_for = tuple(
        now - created
        for pod in observed.live_pods
        if not pod.is_ready and (created := parse_time(pod.created_at))
    )
    workers = Workers(observed.replicas, observed.ready, observed.busy_workers, slots, starting_for)
    return observation(snapshot, workers)


def _contest(observed: Observed, decision: Decision, memory: Memory, clock: float) -> Contest | None:
    """Another client that sets the number of workers, although the operator does: an HPA, KEDA, or a user."""
    others = sorted(observed.replicas_owners - {FIELD_MANAGER, SCALE_MANAGER, _FIRST_APPLY})
    if others and decision.replicas is not None:
        return Contest(others[0], clock)
    is_recent = memory.contest is not None and 0 <= clock - memory.contest.at < CONTEST_SECONDS
    return memory.contest if is_recent else None


def _wanted(observed: Observed, spec: QueueSpec, decision: Decision) -> int:
    """The desired number of workers; while the queue is unknown, the current one."""
    if decision.replicas is not None:
        return decision.replicas
    if observed.deployment is not None:
        return observed.replicas
    return spec.scaling.min_replicas


def _change(observed: Observed, spec: QueueSpec, decision: Decision, memory: Memory, clock: float) -> Step:
    """The deletion costs to write and the number of workers to set."""
    wanted, current = decision.replicas, observed.replicas
    if observed.deployment is None or wanted is None or wanted == current:
        return Step({}, None, Marks())
    if wanted > current:
        return Step({}, wanted, Marks())
    if wanted > 0 and observed.is_rolling_out:
        # There are pods of two ReplicaSets, and the Deployment controller decides which of them loses pods.
        return Step({}, None, Marks())
    longest = scale_down.READY_SECONDS if spec.processing_timeout is None else spec.processing_timeout
    return scale_down.step_down(observed.pods, current, wanted, memory.marks, clock, longest)


def _held(step: Step) -> str:
    """Why a scale-down waits, as an addition to its reason; empty if it does not."""
    if not step.held_by:
        return ""
    shown = ", ".join(step.held_by[:3]) + (" and others" if len(step.held_by) > 3 else "")
    return f"; no worker is removed until the items of {shown} end: busy workers that are not ready would go first"


def replicas_to_hold(observed: Observed) -> int | None:
    """The number of replicas to apply as the scale manager, if only the manager of the other fields owns it.

    That is so after the Deployment was created. Without this, the next apply, which leaves ``replicas`` out, would
    reset it to 1.
    """
    if observed.deployment is None:
        return None
    return observed.replicas if observed.replicas_owners == {FIELD_MANAGER} else None
