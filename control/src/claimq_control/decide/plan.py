"""Plans one pass: the number of workers, those to end, and the status of a queue. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from claimq_control import scale_down
from claimq_control.decide.conditions import View, makes_no_progress
from claimq_control.decide.observed import Observed
from claimq_control.decide.status import build
from claimq_control.fault import OWNED_BY_ANOTHER
from claimq_control.manifest import QueueSpec
from claimq_control.scale_down import Marks, Step
from claimq_control.scaling import (
    NOT_AUTO,
    Decision,
    Estimates,
    Observation,
    ScalingRule,
    ScalingState,
    decide,
    observe,
)

NO_PROGRESS_REASON = "the workers make no progress; see the condition Progressing"
"""Replaces the arithmetic of a decision while workers hang: more workers are no cure."""
CONTEST_SECONDS = 600.0
"""How long another owner of the number of workers is reported after it set the number last."""


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
    """What to do in one pass."""

    desired: int = 0
    """The desired number of workers; while the queue is unknown, the present one."""
    applies: bool = False
    """Whether the manifest may be used as it is: else nothing but the number of workers is changed."""
    costs: dict[str, int] = field(default_factory=dict[str, int])
    """Deletion costs to write, by name of the worker, before the number is set."""
    replicas: int | None = None
    """The number of workers to set; None: no change."""
    victims: tuple[str, ...] = ()
    """The workers to end, on a platform that takes them."""
    status: dict[str, Any] = field(default_factory=dict[str, Any])
    decision: Decision | None = None
    memory: Memory = field(default_factory=Memory)


def plan(observed: Observed, memory: Memory, *, now: float, clock: float) -> Plan:
    """Plans one pass over one queue.

    ``now``: Unix seconds, for the status and the age of workers. ``clock``: monotonic seconds, for everything else.
    """
    spec, current = observed.resource.spec, observed.workers.replicas
    if spec is None:
        return Plan(current, status=build(View(observed, None, current), None, now=now), memory=memory)
    inputs = seen_for_scaling(observed, spec.worker.concurrency, now)
    decision = decide(spec.scaling, inputs, _continued(observed, memory), clock)
    contest = _contest(observed, decision, memory, clock)
    desired = _desired(observed, spec, decision)
    step = _change(observed, spec, decision, memory, clock)
    wait = _wait(step)
    decision = replace(decision, reason=f"{decision.reason}{wait}")
    view = View(observed, decision, desired, "" if contest is None else contest.manager, wait)
    if decision.rule not in NOT_AUTO and makes_no_progress(view):
        decision = replace(
            decision, rule=ScalingRule.NO_PROGRESS, reason=f"{NO_PROGRESS_REASON}{wait}", limit=None, needed=0
        )
        view = replace(view, decision=decision)
    if observed.resource.is_paused:
        view = View(observed, decision, current)
        return Plan(current, status=build(view, inputs, now=now), decision=decision, memory=memory)
    faults = (observed.workers.refusal, observed.redis_fault)
    denial = next((fault for fault in faults if fault is not None and fault.denied), None)
    if denial is not None:
        step, desired = _denied(denial.reason == OWNED_BY_ANOTHER, step, current, decision)
        view = View(observed, decision, desired)
    return Plan(
        desired,
        applies=denial is None,
        costs=step.costs,
        replicas=step.replicas,
        victims=step.victims,
        status=build(view, inputs, now=now),
        decision=decision,
        memory=Memory(decision.state, step.marks, contest),
    )


def _denied(is_owned: bool, step: Step, current: int, decision: Decision) -> tuple[Step, int]:
    """The step for a queue that may not be used as its manifest asks, and the desired number: no more workers.

    If another object owns the queue, remove all workers: they would process the other object's items.
    """
    if is_owned:
        return replace(step, costs={}, replicas=0 if current else None, victims=()), 0
    if decision.replicas is None or decision.replicas >= current:
        return replace(step, costs={}, replicas=None), current
    return step, decision.replicas


def _continued(observed: Observed, memory: Memory) -> ScalingState:
    """The scaling state of the previous pass; in the first pass of a process, from the estimates in the status."""
    if memory.scaling.seen_at is not None or memory.scaling.estimates.at is not None:
        return memory.scaling
    stored = observed.resource.reported("scaling").get("estimates")
    return replace(memory.scaling, estimates=Estimates.from_json(stored)) if stored else memory.scaling


def seen_for_scaling(observed: Observed, slots: int, now: float) -> Observation | None:
    """The input of the scaling rule; None while the queue is unknown. ``now``: Unix seconds."""
    workers = observed.workers
    if observed.snapshot is None:
        return None
    starting_for = tuple(now - worker.created_at for worker in workers.live if not worker.is_ready)
    return observe(
        observed.snapshot,
        replicas=workers.replicas,
        ready=workers.ready,
        busy=workers.busy,
        slots=slots,
        starting_for=starting_for,
    )


def _contest(observed: Observed, decision: Decision, memory: Memory, clock: float) -> Contest | None:
    """Another client that sets the number of workers, although this loop does: an HPA, KEDA, or a user."""
    if observed.workers.rivals and decision.replicas is not None:
        return Contest(observed.workers.rivals[0], clock)
    is_recent = memory.contest is not None and 0 <= clock - memory.contest.at < CONTEST_SECONDS
    return memory.contest if is_recent else None


def _desired(observed: Observed, spec: QueueSpec, decision: Decision) -> int:
    """The desired number of workers; while the queue is unknown, the current one."""
    if decision.replicas is not None:
        return decision.replicas
    if observed.workers.ordered is not None:
        return observed.workers.ordered
    return spec.scaling.min_replicas


def _change(observed: Observed, spec: QueueSpec, decision: Decision, memory: Memory, clock: float) -> Step:
    """The deletion costs to write and the number of workers to set."""
    desired, workers = decision.replicas, observed.workers
    current = workers.ordered
    if current is None or desired is None or desired == current:
        return Step({}, None, Marks())
    if desired > current:
        return Step({}, desired, Marks())
    if workers.takes_victims:
        victims = scale_down.choose(workers.workers, current - desired)
        return Step({}, desired, Marks(), victims=tuple(victim.name for victim in victims))
    if desired > 0 and workers.is_rolling_out:
        # There are pods of two ReplicaSets, and the Deployment controller decides which of them loses pods.
        return Step({}, None, Marks())
    longest = scale_down.READY_SECONDS if spec.processing_timeout is None else spec.processing_timeout
    return scale_down.step_down(workers.workers, current, desired, memory.marks, clock, longest)


def _wait(step: Step) -> str:
    """Why a scale-down waits, as an addition to its reason; empty if it does not."""
    if not step.held_by:
        return ""
    names = ", ".join(step.held_by[:3]) + (" and others" if len(step.held_by) > 3 else "")
    return f"; no worker is removed until the items of {names} end: busy workers that are not ready would go first"
