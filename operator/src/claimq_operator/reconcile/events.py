"""Events of one pass: changed conditions, changed numbers of workers, returned claims, failed items."""

from __future__ import annotations

from dataclasses import dataclass

from claimq_control.decide.condition_changes import Change, changed_conditions
from claimq_control.decide.observed import Observed
from claimq_control.decide.plan import Plan
from claimq_control.passes.worker_platform import Maintained, ReleasedClaims
from claimq_kubernetes.queue_resource import QueueResource
from claimq_operator.reconcile.context import Context
from claimq_operator.telemetry.event_recorder import counted

_MAX_CAUSES = 3
_FAILED_SECONDS = 60.0
"""The time between two Events about failed items of a queue."""


@dataclass(slots=True)
class EventState:
    """Values of one queue that the last Events reported."""

    failed: int | None = None
    failed_at: float | None = None
    """When the last Event about failed items was emitted, by the server's clock."""
    scaled_to: int | None = None


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


def workers_scaled(observed: Observed, plan: Plan, state: EventState) -> list[Change]:
    """A change of the number of workers and its cause, once for each change."""
    if plan.replicas is None or plan.decision is None:
        state.scaled_to = None
        return []
    if plan.replicas == state.scaled_to:
        return []
    state.scaled_to = plan.replicas
    before, after = observed.workers.replicas, plan.replicas
    message = f"{before} -> {after} workers ({plan.decision.rule.value}): {plan.decision.reason}"
    return [Change("ScaledUp" if after > before else "ScaledDown", message)]


def claims_returned(released: tuple[ReleasedClaims, ...]) -> list[Change]:
    """Claims that terminated containers held, with the first causes."""
    if not released:
        return []
    causes = "; ".join(claims.termination.cause for claims in released[:_MAX_CAUSES])
    more = f"; and {len(released) - _MAX_CAUSES} more" if len(released) > _MAX_CAUSES else ""
    total = counted(sum(claims.count for claims in released), "claim")
    message = f"returned {total} of terminated containers: {causes}{more}"
    return [Change("ClaimsGivenBack", message, warning=True)]


def items_failed(observed: Observed, state: EventState) -> list[Change]:
    """The number of items that went to failed since the previous Event about that: at most one a minute."""
    spec = observed.resource.spec
    if observed.snapshot is None or spec is None:
        return []
    now, before, at = observed.snapshot.counters["failed"], state.failed, observed.snapshot.now
    if before is None or now < before:  # the first pass, or another queue of this name
        state.failed = now
        return []
    is_recent = state.failed_at is not None and 0 <= at - state.failed_at < _FAILED_SECONDS
    if now == before or is_recent:
        return []
    state.failed, state.failed_at = now, at
    command = f"{observed.workers.command('items')} failed"
    message = f"{counted(now - before, 'item')} moved to failed; list them with `{command}`"
    return [Change("ItemsFailed", message, warning=True)]
