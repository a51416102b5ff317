"""Changes of conditions that a user should see: those that became bad, and the end of an outage. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from claimq_control.decide.conditions.full import TYPE as FULL
from claimq_control.decide.conditions.operator_conflict import TYPE as CONFLICT
from claimq_control.decide.conditions.pause_forgotten import TYPE as FORGOTTEN
from claimq_control.decide.conditions.progressing import ITEM_MAY_HANG, NO_PROGRESS
from claimq_control.decide.conditions.progressing import TYPE as PROGRESSING
from claimq_control.decide.conditions.scaling_active import CONTESTED
from claimq_control.decide.conditions.scaling_active import TYPE as ACTIVE
from claimq_control.decide.conditions.scaling_limited import TYPE as LIMITED
from claimq_control.decide.conditions.workers_available import APP_NOT_READY, ROLLOUT_BLOCKED, STARTING
from claimq_control.decide.conditions.workers_available import TYPE as WORKERS


@dataclass(frozen=True, slots=True)
class Change:
    """What has changed, as an Event or a line shows it."""

    reason: str
    message: str
    warning: bool = False


def changed_conditions(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """Conditions that became bad, and RedisReachable when it recovers. Ready repeats the others and is left out."""
    previous: dict[str, Mapping[str, Any]] = {
        condition["type"]: condition for condition in before.get("conditions") or ()
    }
    notes = (_changed(previous.get(condition["type"], {}), condition) for condition in after["conditions"])
    return [note for note in notes if note is not None]


def _changed(last: Mapping[str, Any], now: Mapping[str, Any]) -> Change | None:
    kind, status, reason, message = now["type"], now["status"], now["reason"], now["message"]
    before = last.get("status")
    if kind == "RedisReachable" and status == "False" and before != "False":
        return Change("RedisUnreachable", message, warning=True)
    if kind == "RedisReachable" and status == "True" and before == "False":
        return Change("RedisReachable", message)
    if kind == "Stalled" and status == "True" and before != "True":
        return Change(reason, message, warning=True)
    if kind == PROGRESSING and reason in (NO_PROGRESS, ITEM_MAY_HANG) and reason != last.get("reason"):
        return Change(reason, message, warning=True)
    if kind == ACTIVE and reason == CONTESTED != last.get("reason"):
        return Change("ReplicasContested", message, warning=True)
    if kind in (CONFLICT, FORGOTTEN, FULL) and before != "True":
        return Change(kind, message, warning=True)
    if kind == LIMITED and status == "True" and before != "True":
        return Change("ScalingLimited", message, warning=True)
    is_lost = before == "True" and reason != STARTING
    if kind == WORKERS and status == "False" and (is_lost or reason == APP_NOT_READY != last.get("reason")):
        return Change("WorkersUnavailable", message, warning=True)
    if kind == WORKERS and reason == ROLLOUT_BLOCKED != last.get("reason"):
        return Change(ROLLOUT_BLOCKED, message, warning=True)
    return None
