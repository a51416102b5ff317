"""What the operator or local mode reports of a queue: its scaling decision and its conditions, and why an item waits
with these. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from claimq.waiting.reasons import WaitReason, Where
from claimq_control.decide.conditions.progressing import ITEM_MAY_HANG, NO_PROGRESS, TYPE
from claimq_control.decide.conditions.workers_available import STARTING
from claimq_control.decide.pauses import CLOSED, PAUSED
from claimq_kubernetes.port import part, parts
from claimq_process.duration import readable_duration
from claimq_process.rounded import rounded

FOR_WORKERS: Final = (WaitReason.NO_WORKER, WaitReason.BEHIND)
"""Why an item waits whose turn comes when a worker takes items."""
_MOST: Final = 1e15
_WORDS: Final = {
    ("Ready", "False"): "not ready",
    ("RedisReachable", "ReachableWithWarnings"): "server",
    ("Progressing", NO_PROGRESS): "no progress",
    ("Progressing", ITEM_MAY_HANG): "long item",
    ("ScalingLimited", "True"): "too few workers",
    ("Suspended", "SpecSuspend"): "suspended",
    ("Suspended", PAUSED): "paused",
    ("Suspended", CLOSED): "closed",
    ("PauseForgotten", "True"): "paused for over a day",
    ("Full", "True"): "full",
    ("NoisyNeighbour", "True"): "noisy neighbour",
}
"""What a user calls a condition that needs attention, by its type and its status or reason."""
_SENTENCES: Final = {
    (TYPE, NO_PROGRESS): "attention",
    (TYPE, ITEM_MAY_HANG): "longItem",
    (TYPE, PAUSED): "attention",
    ("ScalingLimited", "True"): "limited",
    ("WorkersAvailable", STARTING): "starting",
    ("WorkersAvailable", "False"): "unready",
}
"""Conditions that explain a decision, by type and reason or else by type and status, and under which name."""
_INPUTS: Final = {
    "main": "items waiting",
    "busy": "items in progress",
    "delayedSoon": "delayed items due soon",
    "replicas": "workers ordered",
    "ready": "workers ready",
    "starting": "workers starting",
    "busyWorkers": "workers with claims",
}
_ESTIMATES: Final = {
    "arrivalsPerSecond": "arrivals per second",
    "secondsPerItem": "seconds per item",
    "secondsToStart": "seconds until a new worker claims",
}
_RULES: Final = {
    "forDeadlines": "workers to start every item in time",
    "forArrivals": "workers to keep up with arrivals",
    "forItemsPerReplica": "workers for itemsPerReplica",
    "mostUseful": "workers that would have an item",
    "wanted": "workers wanted, before limits",
    "minReplicas": "minReplicas",
    "maxReplicas": "maxReplicas",
}


def noted(conditions: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """The conditions that a user should know, by the word for each. A longer word replaces its own beginning."""
    words = {
        _WORDS[key]: condition
        for condition in conditions
        for field in ("status", "reason")
        if (key := (str(condition.get("type")), str(condition.get(field)))) in _WORDS
    }
    return {
        word: condition
        for word, condition in words.items()
        if not any(other.startswith(f"{word} ") for other in words)
    }


def needs_attention(conditions: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """What a user should know of the conditions of a queue: each message once, after the word for it."""
    words = {str(condition.get("message")): word for word, condition in noted(conditions).items()}
    return tuple(message if word in message else f"{word}: {message}" for message, word in words.items())


def with_conditions(decision: Mapping[str, Any], conditions: Iterable[Mapping[str, str]]) -> dict[str, Any]:
    """A decision and what the conditions add: ``limited``, by what it is; ``unready``, why no worker is ready, or
    ``starting``, that none is yet; ``attention``, that the queue makes no progress or is paused; ``longItem``, which
    item may hang. Each is missing where nothing is wrong."""
    document = dict(decision)
    for condition in conditions:
        kind, reason, status = (condition.get(field, "") for field in ("type", "reason", "status"))
        if name := _SENTENCES.get((kind, reason)) or _SENTENCES.get((kind, status)):
            document[name] = condition.get("message", "")
    return document


def decision_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """The decision in the status of a ReliableQueue, as :func:`decision_rows` takes it, with its conditions."""
    metadata, status = body["metadata"], part(body, "status")
    named = {"queue": f"{metadata['namespace']}/{metadata['name']}", "source": "ReliableQueue"}
    return with_conditions({**named, **part(status, "scaling")}, parts(status, "conditions"))


def waits_text(where: Where, decision: Mapping[str, Any]) -> str:
    """Why an item waits, and for one that no worker takes, why there is none. ``decision``: with its conditions."""
    if where.reason not in FOR_WORKERS:
        return where.text
    is_alone = where.reason is WaitReason.NO_WORKER
    names = ("attention", *(("unready", "starting", "limited") if is_alone else ()))
    causes = [str(decision[name]) for name in names if decision.get(name)]
    return ": ".join([where.text, *(["; ".join(causes)] if causes else [])])


def decision_rows(decision: Mapping[str, Any]) -> list[list[str]]:
    """Rows: what a number is, its value, and its error if it is an estimate. Values that are no numbers are left out:
    other users may write the status of a ReliableQueue."""
    inputs, demand = _numbers(decision.get("inputs")), _numbers(decision.get("demand"))
    rows = [[text, f"{inputs[name]:,}", ""] for name, text in _INPUTS.items() if name in inputs]
    if "oldestAge" in inputs:
        rows.insert(1, ["age of the oldest item", readable_duration(inputs["oldestAge"]), ""])
    for name, text in _ESTIMATES.items():
        if name in demand and f"{name}Error" in demand:
            rows.append([text, rounded(demand[name]), rounded(demand[f"{name}Error"])])
    return rows + [[text, f"{demand[name]:,}", ""] for name, text in _RULES.items() if name in demand]


def _numbers(values: object) -> dict[str, float]:
    if not isinstance(values, dict):
        return {}
    decision = cast("dict[str, object]", values)
    return {
        name: value
        for name, value in decision.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _MOST
    }
