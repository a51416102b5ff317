"""Selects the workers that a scale-down removes, and marks them by deletion cost. Pure.

A ReplicaSet deletes pods that are not ready first, and among pods of equal readiness those with the lowest deletion
cost. The cost is therefore written just before the number of replicas is lowered, and the pods are checked once more in
between. A busy worker that is not ready, as just after its start or while its app computes and does not answer a probe,
would go whatever the costs are: the number is lowered when it is ready or has no items.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from claimq_control.workers import WorkerState

VICTIM_COST = -1000
SETTLE_SECONDS = 1.0
"""Time between marking pods and lowering the number, in which the cluster's controllers see the marks."""

READY_SECONDS = 3600.0
"""How long a scale-down waits for busy workers that are not ready, if the queue has no processingTimeout. An app may
never be ready, and work all the same."""


@dataclass(frozen=True, slots=True)
class Marks:
    """The names of the marked pods, and when they were marked, by the caller's clock. ``began_at``: when the first pods
    were marked for this scale-down."""

    victims: frozenset[str] = frozenset()
    at: float = 0.0
    began_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Step:
    """What to do now: costs to write, by pod name, and the number of replicas to set; None: wait."""

    costs: dict[str, int]
    replicas: int | None
    marks: Marks
    held_by: tuple[str, ...] = ()
    """The names of the busy pods that are not ready, for which the scale-down waits."""
    victims: tuple[str, ...] = ()
    """The names of the workers to end, on a platform that ends exactly those."""


def choose(pods: Sequence[WorkerState], count: int) -> tuple[WorkerState, ...]:
    """The ``count`` pods to remove: idle ones first (pods that are not ready before others), then by number of claims.

    Ties are broken by age, the newest first, then by name, last first.
    """
    present = [pod for pod in pods if not pod.is_terminating]
    ordered = sorted(present, key=lambda pod: (pod.created_at, pod.name), reverse=True)
    ordered.sort(key=lambda pod: (pod.busy, pod.is_ready))
    return tuple(ordered[:count])


def step_down(
    pods: Sequence[WorkerState],
    current: int,
    target: int,
    marks: Marks,
    now: float,
    longest: float = READY_SECONDS,
) -> Step:
    """The next step from ``current`` replicas down to ``target``: mark the victims, wait, then lower the number. It
    waits for :data:`SETTLE_SECONDS`, or up to ``longest`` seconds for busy workers that are not ready.

    Victims that claimed items in between are spared, and the number is lowered by the remaining ones only: with short
    items, a full set of victims would never stay idle for long enough. Later passes mark the rest.
    No pod is marked if there is no choice: all of them go, or there are no more pods than ``target``.
    """
    present = [pod for pod in pods if not pod.is_terminating]
    surplus = min(len(present) - target, current - target)
    if target == 0 or surplus <= 0:
        return Step({}, target, Marks())
    victims = _left_of(marks.victims, present, surplus)
    if not victims:
        victims = frozenset(pod.name for pod in choose(present, surplus))
    costs = {
        pod.name: VICTIM_COST if pod.name in victims else 0
        for pod in present
        if pod.deletion_cost != (VICTIM_COST if pod.name in victims else 0)
    }
    began_at = marks.began_at if marks.victims else now
    held_by = _lost_instead(present, victims) if now - began_at < longest else ()
    if costs or victims != marks.victims:
        return Step(costs, None, Marks(victims, now, began_at), held_by)
    has_settled = now - marks.at >= SETTLE_SECONDS and not held_by
    return Step({}, target + surplus - len(victims) if has_settled else None, marks, held_by)


def _lost_instead(present: Sequence[WorkerState], victims: frozenset[str]) -> tuple[str, ...]:
    """The busy pods that the ReplicaSet would delete before a victim, because only the victim is ready."""
    if not any(pod.is_ready for pod in present if pod.name in victims):
        return ()
    staying = [pod for pod in present if pod.name not in victims]
    return tuple(pod.name for pod in staying if pod.busy and not pod.is_ready)


def _left_of(marked: frozenset[str], present: Sequence[WorkerState], surplus: int) -> frozenset[str]:
    """The marked pods that may still go: at most ``surplus``, and no busy one while an idle pod could go instead."""
    leaving = choose([pod for pod in present if pod.name in marked], surplus)
    idle_others = sum(pod.busy == 0 for pod in present if pod.name not in {pod.name for pod in leaving})
    busy = [pod for pod in leaving if pod.busy]
    spared = {pod.name for pod in busy[max(len(busy) - idle_others, 0) :]}
    return frozenset(pod.name for pod in leaving) - spared
