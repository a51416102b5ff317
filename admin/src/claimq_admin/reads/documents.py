"""The JSON documents that the commands print. Later versions only add fields.

Instants are Unix seconds by the server's clock, durations seconds. A payload is under exactly one name: ``payload``
(the JSON value that it is), ``text`` (UTF-8 that is not JSON, or is JSON that not every reader can read: a number
beyond a double, or more than 100 levels) or ``payload_base64`` (anything else); of a payload that a list leaves out,
``payload_size`` has the bytes.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from math import isfinite
from typing import Any

from claimq.item_options import ITEM_OPTIONS
from claimq.limits import UNBOUNDED
from claimq.model import (
    Enqueued,
    Item,
    Located,
    Snapshot,
    State,
    WorkerInfo,
)
from claimq.queue.failed.removed import RemovedItem
from claimq.waiting.reasons import Where, waiting_counts
from claimq_process.json_levels import levels_of
from claimq_process.names import pod_of_worker

Json = dict[str, Any]
_LEVELS = 100


def workers_of(workers: Sequence[WorkerInfo], live: Sequence[WorkerInfo]) -> list[Json]:
    """``live``: those of the workers that have not ended (``queue_reads.live_workers``). ``pod``: None for a program
    that is no worker pod of a ReliableQueue."""
    return [
        {**asdict(worker), "pod": (pod_of_worker(worker.worker) or (None,))[0], "is_live": worker in live}
        for worker in workers
    ]


def payload_of(raw: bytes) -> Json:
    """The payload under one of its three names."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return {"payload_base64": base64.b64encode(raw).decode()}
    try:
        document = json.loads(text, parse_constant=_no_number, parse_float=_finite)
    except (ValueError, RecursionError):
        return {"text": text}
    return {"payload": document} if _has_few_levels(document) else {"text": text}


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _finite(number: str) -> float:
    finite = float(number)
    if not isfinite(finite):
        raise ValueError(f"{number[:40]} is beyond the range of a double")
    return finite


def _has_few_levels(document: object) -> bool:
    """Whether each encoder can write it: those of JSON and YAML call themselves for each level."""
    return next(islice(levels_of(document), _LEVELS, None), None) is None


def options_of(source: Item) -> Json:
    """The options that its producer gave."""
    return {option.name: option.of(source) for option in ITEM_OPTIONS}


def item(source: Item, payload_size: int | None = None) -> Json:
    """An item. ``payload_size``: of a payload that was left out."""
    return {
        "id": source.id,
        **(payload_of(source.payload) if payload_size is None else {"payload_size": payload_size}),
        "client": source.client,
        **options_of(source),
        "first_enqueued_at": source.first_enqueued_at,
        "enqueued_at": source.enqueued_at,
        "requeue_count": source.requeue_count,
        "fail_count": source.fail_count,
        "crash_count": source.crash_count,
        "interrupted_count": source.interrupted_count,
        "postponed_count": source.postponed_count,
        "given_up_count": source.given_up_count,
        "last_error": source.last_error,
        "error_detail": source.error_detail,
        "failed_reason": source.failed_reason,
        "history": list(map(asdict, source.history)),
    }


def located(source: Located) -> Json:
    """An item, as :func:`item`, and its state. Fields that do not apply to the state are null."""
    return {
        "state": source.state.value,
        "name": source.name or source.item.id,
        "worker": source.worker,
        "claimed_at": source.claimed_at,
        "lease_until": source.lease_until,
        "due_at": source.due_at,
        "failed_at": source.failed_at,
        "item": item(source.item, source.payload_size),
    }


def where(source: Where, text: str) -> Json:
    """An item, as :func:`located`, and why it waits: null for one that does not. ``text``: the reason for people."""
    waits = source.reason and {
        "reason": source.reason.value,
        "text": text,
        "until": source.until,
        "ahead": source.ahead and source.ahead._asdict(),
        "ahead_of_all": source.ahead_of_all and source.ahead_of_all._asdict(),
    }
    return {**located(source.located), "waits": waits}


def removed(source: RemovedItem) -> Json:
    """An entry of the log of removed items: the first part of the payload, and its whole size."""
    return {
        "removed_at": source.removed_at,
        "reason": source.reason,
        "payload_size": source.payload_size,
        "item": item(source.item),
    }


def enqueued(queue: str, result_of_call: Enqueued) -> Json:
    """The result of an enqueue."""
    return {
        "queue": queue,
        "ids": list(result_of_call.ids),
        "length": result_of_call.length,
        "duplicates": list(result_of_call.duplicates),
    }


def status(queue: str, snapshot: Snapshot, workers: list[WorkerInfo], attention: str = "") -> Json:
    """A queue at one instant, its workers, and a sentence about what needs attention."""
    return {
        "queue": queue,
        "now": snapshot.now,
        "paused": snapshot.paused,
        "pauses": list(map(asdict, snapshot.pauses)),
        "attention": attention or None,
        "neighbours": list(map(asdict, snapshot.neighbours)),
        "lengths": {state.value: snapshot.lengths[state] for state in State},
        "waiting": waiting_counts(snapshot),
        "ages": {state.value: snapshot.ages[state] for state in State},
        "next_due_in": snapshot.next_due_in,
        "counters": snapshot.counters,
        "workers": list(map(asdict, workers)),
    }


def limits(queue: str, snapshot: Snapshot) -> Json:
    """The limits of a queue at one instant: what holds, until when if that is temporary, and how many items each lets
    start. A limit that does not hold for a time has no ``rate`` and no ``busy``."""
    now, busy, rows = snapshot.limits, snapshot.lengths[State.BUSY], dict[str, Json]()
    none: Json = dict.fromkeys(("per", "rate", "burst", "busy", "unit", "startable", "until", "by", "reason"))
    for limit in now.limits if now else ():
        burst = None if limit.rate is None else limit.burst or 1
        startable = now.startable_by(limit, busy) if now else None
        rows[limit.name] = none | {
            "per": limit.per,
            "rate": limit.rate,
            "burst": burst,
            "busy": limit.busy,
            "unit": limit.unit,
            "startable": startable,
        }
    for change in snapshot.temporary_limits:
        ends = {"until": change.until, "by": change.by, "reason": change.reason}
        rows[change.name] = rows.get(change.name, none) | ends
    return {
        "queue": queue,
        "limits": [{"name": name, **row} for name, row in rows.items()],
        "startable": now.startable if now and now.startable < UNBOUNDED else None,
        "next_start_in": now.next_start_in if now else None,
        "waiting": snapshot.lengths[State.MAIN],
        "in_progress": busy,
    }


def lengths(queue: str, by_state: Mapping[State, int]) -> Json:
    """How many items a queue has."""
    return {"queue": queue, "lengths": {state.value: by_state[state] for state in State}}
