"""Which workers a scale-down takes, and how the cluster is told. Pure.

The ReplicaSet takes pods of the lowest deletion cost first, but only among pods that are alike ready; so the cost is
written just before the number of replicas is lowered, and the pods are looked at once more in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from claimq_operator.kubernetes_api.worker_pods import WorkerPod

VICTIM_COST = -1000
SETTLE_SECONDS = 1.0
"""Between marking pods and lowering the number: the time in which the cluster's controllers learn of the marks."""


@dataclass(frozen=True, slots=True)
class Marks:
    """The pods (names) that were marked to go, and when that was done, by the caller's clock."""

    victims: frozenset[str] = frozenset()
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Step:
    """What to do now: costs to write (pod -> cost), and the number to lower to; None: not yet."""

    costs: dict[str, int]
    replicas: int | None
    marks: Marks


def choose(pods: Sequence[WorkerPod], count: int) -> tuple[WorkerPod, ...]:
    """The pods to take so that ``count`` fewer are there: idle ones (not ready ones first), then who holds least.

    A pod that holds claims is chosen only when there are not enough without; of equals the last by name.
    """
    there = [pod for pod in pods if not pod.is_ending]
    ordered = sorted(there, key=lambda pod: pod.name, reverse=True)
    ordered.sort(key=lambda pod: (pod.busy, pod.is_ready))
    return tuple(ordered[:count])


def step_down(pods: Sequence[WorkerPod], current: int, wanted: int, marks: Marks, now: float) -> Step:
    """From ``current`` replicas to ``wanted``, fewer: mark the victims, wait a moment, then lower.

    Victims that took items meanwhile are spared, and the number is lowered by the others alone: with short items there
    would never be a moment at which a whole new choice has settled. What is missing is marked anew after that.
    Nothing is marked where there is no choice: all go, or no more pods are there than shall stay.
    """
    there = [pod for pod in pods if not pod.is_ending]
    surplus = min(len(there) - wanted, current - wanted)
    if wanted == 0 or surplus <= 0:
        return Step({}, wanted, Marks())
    victims = _left_of(marks.victims, there, surplus)
    if not victims:
        victims = frozenset(pod.name for pod in choose(there, surplus))
    costs = {
        pod.name: VICTIM_COST if pod.name in victims else 0
        for pod in there
        if pod.deletion_cost != (VICTIM_COST if pod.name in victims else 0)
    }
    if costs or victims != marks.victims:
        return Step(costs, None, Marks(victims, now))
    has_settled = now - marks.at >= SETTLE_SECONDS
    return Step({}, wanted + surplus - len(victims) if has_settled else None, marks)


def _left_of(marked: frozenset[str], there: Sequence[WorkerPod], surplus: int) -> frozenset[str]:
    """Who of the marked may still go: at most ``surplus``, and nobody busy while an idle one could go instead."""
    left = choose([pod for pod in there if pod.name in marked], surplus)
    idle_others = sum(pod.busy == 0 for pod in there if pod.name not in {one.name for one in left})
    busy = [pod for pod in left if pod.busy]
    spared = {pod.name for pod in busy[max(len(busy) - idle_others, 0) :]}
    return frozenset(pod.name for pod in left) - spared
