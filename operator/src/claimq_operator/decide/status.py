"""Builds the status of a ReliableQueue, and decides whether it has to be written. Pure.

The fields are described in docs/status.md and declared in the CRD. A write on every pass would load etcd, so small
changes of numbers are written later.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from claimq.model import Snapshot, State
from claimq_control.scaling import Decision, Seen, document
from claimq_control.worker_counts import ready_summary
from claimq_kubernetes.labels import selector_text
from claimq_kubernetes.port import Json, part, parts
from claimq_kubernetes.timestamps import format_time
from claimq_operator.decide.conditions import View, all_conditions, with_transition_times

_AGES = (State.MAIN, State.BUSY, State.FAILED)
_AGE_TOLERANCE = 0.2
"""The relative difference up to which two ages count as equal."""


def build(view: View, seen: Seen | None, *, now: float) -> Json:
    """The whole status. ``now``: Unix seconds. Numbers that are unknown in this pass keep their last value."""
    observed = view.observed
    resource, before = observed.resource, observed.resource.status
    now_text = format_time(now)
    conditions = with_transition_times(
        all_conditions(view),
        parts(before, "conditions"),
        generation=resource.generation,
        now_text=now_text,
    )
    status: Json = {
        "observedGeneration": resource.generation,
        "conditions": conditions,
        "selector": selector_text(resource.name),
        "workers": _workers(view, before),
    }
    if resource.spec is not None:
        status["queueName"] = resource.spec.queue_name
    status |= _numbers(observed.snapshot, before)
    if observed.report is not None:
        report = observed.report
        redis: Json = {"version": f"{report.flavour} {report.version}", "mode": report.mode}
        if report.warnings:
            redis["warnings"] = [f"{one.code}: {one.message}" for one in report.warnings]
        status["redis"] = redis
    elif "redis" in before:
        status["redis"] = before["redis"]
    scaling = (
        before.get("scaling") if view.decision is None else _scaling(view.decision, seen, before, now_text)
    )
    if scaling:
        status["scaling"] = scaling
    return status


def _workers(view: View, before: Mapping[str, Any]) -> Json:
    ready, wanted, busy = view.observed.ready, view.wanted, view.observed.busy_workers
    if view.observed.snapshot is None:  # only the server knows which workers hold claims
        busy = part(before, "workers").get("busy", 0)
    return {
        "desired": wanted,
        "ready": ready,
        "busy": busy,
        "summary": ready_summary(ready, wanted),
    }


def _numbers(snapshot: Snapshot | None, before: Mapping[str, Any]) -> Json:
    """Numbers of items and ages. Without a snapshot the last values stay; RedisReachable reports that they are old."""
    if snapshot is None:
        return {key: before[key] for key in ("items", "ages", "oldest") if key in before}
    found: Json = {"items": {state.value: snapshot.lengths[state] for state in State}}
    ages = {state.value: round(age, 1) for state in _AGES if (age := snapshot.ages[state]) is not None}
    if ages:  # the API server would turn an emptied object into null and reject it
        found["ages"] = ages
    oldest = snapshot.ages[State.MAIN]
    if oldest is not None:
        found["oldest"] = age_text(oldest)
    return found


def _scaling(decision: Decision, seen: Seen | None, before: Mapping[str, Any], now_text: str) -> Json:
    last = part(before, "scaling")
    is_same = last.get("rule") == decision.rule.value and last.get("replicas") == decision.replicas
    found = {**document(decision, seen), "at": last["at"] if is_same and "at" in last else now_text}
    if seen is None and "estimates" in last:  # the next operator continues from them
        found["estimates"] = last["estimates"]
    return found


def is_urgent(new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Whether conditions, the desired or ready workers, or the observed generation differ. Such a status is written at
    once. The number of busy workers changes with each item, so it is not."""
    return (
        _condition_states(new) != _condition_states(old)
        or new.get("observedGeneration") != old.get("observedGeneration")
        or any(new.get(key) != old.get(key) for key in ("selector", "queueName"))
        or any(part(new, "workers").get(key) != part(old, "workers").get(key) for key in ("desired", "ready"))
    )


def has_changed(new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Whether any visible value differs. Such a status is written once the status period has passed."""
    if is_urgent(new, old) or any(new.get(key) != old.get(key) for key in ("items", "workers")):
        return True
    if new.get("redis") != old.get("redis") or _messages(new) != _messages(old):
        return True
    decided, decided_before = part(new, "scaling"), part(old, "scaling")
    if any(decided.get(key) != decided_before.get(key) for key in ("rule", "replicas")):
        return True
    return not _are_close(part(new, "ages"), part(old, "ages"))


def _condition_states(status: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    return [
        (one.get("type"), one.get("status"), one.get("reason"), one.get("observedGeneration"))
        for one in parts(status, "conditions")
    ]


def _messages(status: Mapping[str, Any]) -> list[Any]:
    return [one.get("message") for one in parts(status, "conditions")]


def _are_close(new: Mapping[str, float], old: Mapping[str, float]) -> bool:
    if new.keys() != old.keys():
        return False
    return all(abs(new[key] - old[key]) <= max(_AGE_TOLERANCE * max(new[key], old[key]), 1.0) for key in new)


def age_text(seconds: float) -> str:
    """An age for people, with up to two units: 45s, 3m20s, 5h10m, 2d4h."""
    whole = int(seconds)
    for size, unit, small, smaller in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            rest = whole % size // small
            return f"{whole // size}{unit}" + (f"{rest}{smaller}" if rest else "")
    return f"{whole}s"
