"""Builds the status of a queue from one pass. Pure.

The fields are described in docs/reference/status.md and declared in the CRD.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from claimq.model import Snapshot, State
from claimq.waiting.reasons import waiting_counts
from claimq_control.decide.conditions import View, all_conditions, with_transition_times
from claimq_control.manifest.declaring import camel
from claimq_control.scaling import Decision, Observation, document
from claimq_control.scaling.explanation import Json
from claimq_control.worker_counts import ready_summary
from claimq_process.timestamps import format_time

_AGES = (State.MAIN, State.BUSY, State.FAILED)


def build(view: View, inputs: Observation | None, *, now: float) -> Json:
    """The whole status. ``now``: Unix seconds. Numbers that are unknown in this pass keep their last value."""
    observed = view.observed
    resource, before = observed.resource, observed.resource.status
    now_text = format_time(now)
    conditions = with_transition_times(
        all_conditions(view),
        before.get("conditions") or (),
        generation=resource.generation,
        now_text=now_text,
    )
    status: Json = {
        "observedGeneration": resource.generation,
        "conditions": conditions,
        "workers": _workers(view),
    }
    if resource.spec is not None:
        status["queueName"] = resource.spec.queue_name
    status |= _numbers(observed.snapshot, before)
    if observed.report is not None:
        report = observed.report
        redis: Json = {"version": f"{report.flavour} {report.version}", "mode": report.mode}
        if report.warnings:
            redis["warnings"] = [f"{warning.code}: {warning.message}" for warning in report.warnings]
        status["redis"] = redis
    elif "redis" in before:
        status["redis"] = before["redis"]
    scaling = (
        before.get("scaling")
        if view.decision is None
        else _scaling(view.decision, inputs, resource.reported("scaling"), now_text)
    )
    if scaling:
        status["scaling"] = scaling
    return status


def _workers(view: View) -> Json:
    workers, desired, busy = view.observed.workers, view.desired, view.observed.workers.busy
    if view.observed.snapshot is None:  # only the server knows which workers hold claims
        busy = view.observed.resource.reported("workers").get("busy", 0)
    return {
        "desired": desired,
        "ready": workers.ready,
        "busy": busy,
        "summary": ready_summary(workers.ready, desired),
    }


def _numbers(snapshot: Snapshot | None, before: Mapping[str, Any]) -> Json:
    """Numbers of items and ages. Without a snapshot the last values stay; RedisReachable reports that they are old."""
    if snapshot is None:
        return {key: before[key] for key in ("items", "waiting", "ages", "oldest") if key in before}
    waiting = {camel(reason): count for reason, count in waiting_counts(snapshot).items()}
    numbers: Json = {
        "items": {state.value: snapshot.lengths[state] for state in State},
        "waiting": waiting,
    }
    ages = {state.value: round(age, 1) for state in _AGES if (age := snapshot.ages[state]) is not None}
    if ages:  # the API server would turn an emptied object into null and reject it
        numbers["ages"] = ages
    oldest = snapshot.ages[State.MAIN]
    if oldest is not None:
        numbers["oldest"] = age_text(oldest)
    return numbers


def _scaling(decision: Decision, inputs: Observation | None, last: Mapping[str, Any], now_text: str) -> Json:
    is_same = last.get("rule") == decision.rule.value and last.get("replicas") == decision.replicas
    scaling = {**document(decision, inputs), "at": last["at"] if is_same and "at" in last else now_text}
    if inputs is None and "estimates" in last:  # the next operator continues from them
        scaling["estimates"] = last["estimates"]
    return scaling


def age_text(seconds: float) -> str:
    """An age for people, with up to two units: 45s, 3m20s, 5h10m, 2d4h."""
    whole = int(seconds)
    for size, unit, small, smaller in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            rest = whole % size // small
            return f"{whole // size}{unit}" + (f"{rest}{smaller}" if rest else "")
    return f"{whole}s"
