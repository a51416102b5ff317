"""What people are told by events after a pass: what was done, what went wrong, what ended. One of a kind at most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from claimq_operator.decide.conditions.workers_available import ROLLOUT_BLOCKED
from claimq_operator.decide.conditions.workers_available import TYPE as WORKERS
from claimq_operator.decide.observed import Observed
from claimq_operator.decide.plan import Plan
from claimq_operator.kubernetes_api.port import parts
from claimq_operator.reconcile.context import Context
from claimq_operator.redis.maintenance import GivenBack, Kept

_MOST_CAUSES = 3


@dataclass(slots=True)
class Told:
    """What was told last of one queue."""

    failed: int | None = None
    scaled_to: int | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """One event to write."""

    reason: str
    message: str
    warning: bool = False


async def tell(context: Context, told: Told, observed: Observed, decided: Plan, kept: Kept | None) -> None:
    """Writes the events of one pass."""
    resource = observed.resource
    notes = [
        *changed_conditions(resource.status, decided.status),
        *scaled(observed, decided, told),
        *given_back(kept.given_back if kept is not None else ()),
        *given_up(observed, told),
    ]
    for one in kept.given_back if kept is not None else ():
        context.metrics.released.labels(*resource.key, one.death.reason.value).inc(one.count)
    for note in notes:
        await context.recorder.tell(resource, note.reason, note.message, warning=note.warning)


def changed_conditions(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Note]:
    """A word about each condition that has become bad, or good again. Ready says nothing that the others do not."""
    known: dict[str, Mapping[str, Any]] = {one["type"]: one for one in parts(before, "conditions")}
    notes: list[Note] = []
    for one in parts(after, "conditions"):
        last = known.get(one["type"], {}).get("status")
        if one["type"] == "RedisReachable" and last != one["status"] and one["status"] != "Unknown":
            is_bad = one["status"] == "False"
            if is_bad or last == "False":
                notes.append(Note("RedisUnreachable" if is_bad else "RedisReachable", one["message"], is_bad))
        elif one["type"] == "Stalled" and one["status"] == "True" and last != "True":
            notes.append(Note(one["reason"], one["message"], warning=True))
        elif (
            one["type"] == WORKERS
            and one["status"] == "False"
            and last == "True"
            and one["reason"] != "Starting"
        ):
            notes.append(Note("WorkersUnavailable", one["message"], warning=True))
        elif (
            one["type"] == WORKERS  # Ready says the same
            and one["reason"] == ROLLOUT_BLOCKED
            and known.get(WORKERS, {}).get("reason") != ROLLOUT_BLOCKED
        ):
            notes.append(Note(ROLLOUT_BLOCKED, one["message"], warning=True))
    return notes


def scaled(observed: Observed, decided: Plan, told: Told) -> list[Note]:
    """That the number of workers was changed, from what to what, and why; once for each change."""
    if decided.replicas is None or decided.decision is None:
        told.scaled_to = None
        return []
    if decided.replicas == told.scaled_to:
        return []
    told.scaled_to = decided.replicas
    before, after = observed.replicas, decided.replicas
    reason = "ScaledUp" if after > before else "ScaledDown"
    return [
        Note(
            reason, f"{before} -> {after} workers ({decided.decision.rule.value}): {decided.decision.reason}"
        )
    ]


def given_back(done: tuple[GivenBack, ...]) -> list[Note]:
    """That containers ended with claims in hand, with the first few causes."""
    if not done:
        return []
    causes = "; ".join(one.death.cause for one in done[:_MOST_CAUSES])
    more = f"; and {len(done) - _MOST_CAUSES} more" if len(done) > _MOST_CAUSES else ""
    count = sum(one.count for one in done)
    return [
        Note("ClaimsGivenBack", f"{count} claims of dead containers went back: {causes}{more}", warning=True)
    ]


def given_up(observed: Observed, told: Told) -> list[Note]:
    """That items went to failed since the last pass."""
    if observed.snapshot is None:
        return []
    now, before = observed.snapshot.counters["failed"], told.failed
    told.failed = now
    if before is None or now <= before:
        return []
    name = observed.resource.spec.queue_name if observed.resource.spec is not None else observed.resource.name
    said = f"{now - before} items were given up; look at them with `claimq failed list {name}`"
    return [Note("ItemsFailed", said, warning=True)]
