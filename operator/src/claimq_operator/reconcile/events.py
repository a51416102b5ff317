"""Events of one pass: changed conditions, changed numbers of workers, returned claims, failed items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from claimq_control.decide.conditions.operator_conflict import TYPE as CONFLICT
from claimq_control.decide.conditions.scaling_active import CONTESTED
from claimq_control.decide.conditions.scaling_active import TYPE as ACTIVE
from claimq_control.decide.conditions.scaling_limited import TYPE as LIMITED
from claimq_control.decide.conditions.workers_available import ROLLOUT_BLOCKED, STARTING
from claimq_control.decide.conditions.workers_available import TYPE as WORKERS
from claimq_control.decide.observed import Observed
from claimq_control.decide.plan import Plan
from claimq_control.passes.worker_platform import Maintained, ReleasedClaims
from claimq_kubernetes.port import parts
from claimq_kubernetes.queue_resource import QueueResource
from claimq_operator.reconcile.context import Context
from claimq_operator.telemetry.event_recorder import counted

_MAX_CAUSES = 3


@dataclass(slots=True)
class EventState:
    """Values of one queue that the last Events reported."""

    failed: int | None = None
    scaled_to: int | None = None


@dataclass(frozen=True, slots=True)
class EventNote:
    """One Event to emit."""

    reason: str
    message: str
    warning: bool = False


async def emit_events(
    context: Context,
    state: EventState,
    resource: QueueResource,
    observed: Observed,
    plan: Plan,
    maintained: Maintained | None,
) -> None:
    """Emits the Events of one pass, at most one of each reason."""
    released = maintained.released if maintained is not None else ()
    notes = [
        *changed_conditions(resource.status, plan.status),
        *workers_scaled(observed, plan, state),
        *claims_returned(released),
        *items_failed(observed, state),
    ]
    for claims in released:
        context.metrics.released.labels(*resource.key, claims.termination.reason.value).inc(claims.count)
    for note in notes:
        await context.recorder.emit(resource, note.reason, note.message, warning=note.warning)


def changed_conditions(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[EventNote]:
    """Conditions that became bad, and RedisReachable when it recovers. Ready repeats the others and is left out."""
    previous: dict[str, Mapping[str, Any]] = {
        condition["type"]: condition for condition in parts(before, "conditions")
    }
    notes = (
        _changed(previous.get(condition["type"], {}), condition) for condition in parts(after, "conditions")
    )
    return [note for note in notes if note is not None]


def _changed(last: Mapping[str, Any], now: Mapping[str, Any]) -> EventNote | None:
    kind, status, reason, message = now["type"], now["status"], now["reason"], now["message"]
    before = last.get("status")
    if kind == "RedisReachable" and status == "False" and before != "False":
        return EventNote("RedisUnreachable", message, warning=True)
    if kind == "RedisReachable" and status == "True" and before == "False":
        return EventNote("RedisReachable", message)
    if kind == "Stalled" and status == "True" and before != "True":
        return EventNote(reason, message, warning=True)
    if kind == ACTIVE and reason == CONTESTED != last.get("reason"):
        return EventNote("ReplicasContested", message, warning=True)
    if kind == CONFLICT and before != "True":
        return EventNote(CONFLICT, message, warning=True)
    if kind == LIMITED and status == "True" and before != "True":
        return EventNote("ScalingLimited", message, warning=True)
    if kind == WORKERS and status == "False" and before == "True" and reason != STARTING:
        return EventNote("WorkersUnavailable", message, warning=True)
    if kind == WORKERS and reason == ROLLOUT_BLOCKED != last.get("reason"):
        return EventNote(ROLLOUT_BLOCKED, message, warning=True)
    return None


def workers_scaled(observed: Observed, plan: Plan, state: EventState) -> list[EventNote]:
    """A change of the number of workers and its cause, once for each change."""
    if plan.replicas is None or plan.decision is None:
        state.scaled_to = None
        return []
    if plan.replicas == state.scaled_to:
        return []
    state.scaled_to = plan.replicas
    before, after = observed.workers.replicas, plan.replicas
    message = f"{before} -> {after} workers ({plan.decision.rule.value}): {plan.decision.reason}"
    return [EventNote("ScaledUp" if after > before else "ScaledDown", message)]


def claims_returned(released: tuple[ReleasedClaims, ...]) -> list[EventNote]:
    """Claims that terminated containers held, with the first causes."""
    if not released:
        return []
    causes = "; ".join(claims.termination.cause for claims in released[:_MAX_CAUSES])
    more = f"; and {len(released) - _MAX_CAUSES} more" if len(released) > _MAX_CAUSES else ""
    total = counted(sum(claims.count for claims in released), "claim")
    message = f"returned {total} of terminated containers: {causes}{more}"
    return [EventNote("ClaimsGivenBack", message, warning=True)]


def items_failed(observed: Observed, state: EventState) -> list[EventNote]:
    """The number of items that went to failed since the previous pass."""
    spec = observed.resource.spec
    if observed.snapshot is None or spec is None:
        return []
    now, before = observed.snapshot.counters["failed"], state.failed
    state.failed = now
    if before is None or now <= before:
        return []
    message = f"{counted(now - before, 'item')} moved to failed; list them with `claimq failed list {spec.queue_name}`"
    return [EventNote("ItemsFailed", message, warning=True)]
