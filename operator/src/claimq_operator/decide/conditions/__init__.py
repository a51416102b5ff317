"""The conditions of a ReliableQueue, one module each. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from claimq_kubernetes.port import Json
from claimq_operator.decide.conditions.condition import Condition, View
from claimq_operator.decide.conditions.operator_conflict import operator_conflict
from claimq_operator.decide.conditions.ready import ready
from claimq_operator.decide.conditions.redis_reachable import redis_reachable
from claimq_operator.decide.conditions.scaling_active import scaling_active
from claimq_operator.decide.conditions.scaling_limited import scaling_limited
from claimq_operator.decide.conditions.stalled import stalled
from claimq_operator.decide.conditions.suspended import suspended
from claimq_operator.decide.conditions.workers_available import workers_available

__all__ = ["Condition", "View", "all_conditions", "with_transition_times"]


def all_conditions(view: View) -> tuple[Condition, ...]:
    """All conditions of the queue, in the order in which ``kubectl describe`` shows them."""
    redis, workers, is_stalled, is_suspended = (
        redis_reachable(view),
        workers_available(view),
        stalled(view),
        suspended(view),
    )
    conflict = operator_conflict(view)
    found = (
        ready(redis, workers, is_stalled, is_suspended, conflict),
        redis,
        workers,
        scaling_active(view),
        scaling_limited(view),
        is_stalled,
        is_suspended,
        *([] if conflict is None else [conflict]),
    )
    return tuple(one.short() for one in found)


def with_transition_times(
    conditions: Sequence[Condition], before: Sequence[Any], *, generation: int, now_text: str
) -> list[Json]:
    """The conditions as JSON. ``lastTransitionTime`` is kept from ``before`` while a condition's status is the same."""
    previous = {one.get("type"): one for one in before}
    found: list[Json] = []
    for one in conditions:
        last = previous.get(one.type, {})
        since = last.get("lastTransitionTime") if last.get("status") == one.status else None
        found.append(
            {
                "type": one.type,
                "status": one.status,
                "reason": one.reason,
                "message": one.message,
                "observedGeneration": generation,
                "lastTransitionTime": since or now_text,
            }
        )
    return found
