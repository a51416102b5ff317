"""The conditions of a ReliableQueue, one module each. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from claimq_control.decide.conditions.condition import Condition, View
from claimq_control.decide.conditions.full import full
from claimq_control.decide.conditions.noisy_neighbour import noisy_neighbour
from claimq_control.decide.conditions.operator_conflict import operator_conflict
from claimq_control.decide.conditions.pause_forgotten import pause_forgotten
from claimq_control.decide.conditions.progressing import NO_PROGRESS, progressing
from claimq_control.decide.conditions.ready import ready
from claimq_control.decide.conditions.redis_reachable import redis_reachable
from claimq_control.decide.conditions.scaling_active import scaling_active
from claimq_control.decide.conditions.scaling_limited import scaling_limited
from claimq_control.decide.conditions.stalled import stalled
from claimq_control.decide.conditions.suspended import suspended
from claimq_control.decide.conditions.workers_available import workers_available

__all__ = ["Condition", "View", "all_conditions", "makes_no_progress", "with_transition_times"]


def all_conditions(view: View) -> tuple[Condition, ...]:
    """All conditions of the queue, in the order in which ``kubectl describe`` shows them."""
    redis, workers = redis_reachable(view), workers_available(view)
    is_stalled, is_suspended = stalled(view), suspended(view)
    conflict, progress = operator_conflict(view), progressing(view, redis, workers, is_suspended)
    bound = full(view)
    optional = (conflict, pause_forgotten(view), bound, noisy_neighbour(view))
    conditions = (
        ready(redis, workers, is_stalled, is_suspended, progress, conflict, bound),
        redis,
        workers,
        progress,
        scaling_active(view),
        scaling_limited(view, progress),
        is_stalled,
        is_suspended,
        *(condition for condition in optional if condition is not None),
    )
    return tuple(condition.short() for condition in conditions)


def makes_no_progress(view: View) -> bool:
    """Whether items wait and nothing is claimed although workers are ready."""
    progress = progressing(view, redis_reachable(view), workers_available(view), suspended(view))
    return progress.reason == NO_PROGRESS


def with_transition_times(
    conditions: Sequence[Condition], before: Sequence[Any], *, generation: int, now_text: str
) -> list[dict[str, Any]]:
    """The conditions as JSON. ``lastTransitionTime`` is kept from ``before`` while a condition's status is the same."""
    previous = {condition.get("type"): condition for condition in before}
    documents: list[dict[str, Any]] = []
    for condition in conditions:
        last = previous.get(condition.type, {})
        since = last.get("lastTransitionTime") if last.get("status") == condition.status else None
        documents.append(
            {
                "type": condition.type,
                "status": condition.status,
                "reason": condition.reason,
                "message": condition.message,
                "observedGeneration": generation,
                "lastTransitionTime": since or now_text,
            }
        )
    return documents
