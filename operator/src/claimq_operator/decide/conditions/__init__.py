"""The conditions of a ReliableQueue: one file each, and this one puts them together. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from claimq_operator.decide.conditions.finding import Finding, View
from claimq_operator.decide.conditions.ready import ready
from claimq_operator.decide.conditions.redis_reachable import redis_reachable
from claimq_operator.decide.conditions.scaling_active import scaling_active
from claimq_operator.decide.conditions.scaling_limited import scaling_limited
from claimq_operator.decide.conditions.stalled import stalled
from claimq_operator.decide.conditions.suspended import suspended
from claimq_operator.decide.conditions.workers_available import workers_available
from claimq_operator.kubernetes_api.port import Json

__all__ = ["Finding", "View", "all_conditions", "dated"]


def all_conditions(view: View) -> tuple[Finding, ...]:
    """Every condition of the queue, in the order in which people read them."""
    redis, workers, stuck, held = (
        redis_reachable(view),
        workers_available(view),
        stalled(view),
        suspended(view),
    )
    found = (
        ready(redis, workers, stuck, held),
        redis,
        workers,
        scaling_active(view),
        scaling_limited(view),
        stuck,
        held,
    )
    return tuple(one.short() for one in found)


def dated(
    findings: Sequence[Finding], before: Sequence[Any], *, generation: int, now_text: str
) -> list[Json]:
    """The conditions as a status holds them; a condition keeps its instant while its status stays the same."""
    known = {one.get("type"): one for one in before}
    dated: list[Json] = []
    for one in findings:
        last = known.get(one.type, {})
        since = last.get("lastTransitionTime") if last.get("status") == one.status else None
        dated.append(
            {
                "type": one.type,
                "status": one.status,
                "reason": one.reason,
                "message": one.message,
                "observedGeneration": generation,
                "lastTransitionTime": since or now_text,
            }
        )
    return dated
