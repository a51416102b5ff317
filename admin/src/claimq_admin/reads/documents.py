"""The JSON documents that the commands print. Later versions only add fields.

Instants are Unix seconds by the server's clock, durations seconds. A payload is under exactly one name: ``payload``
(the JSON value that it is), ``text`` (UTF-8 that is not JSON, or is JSON that not every reader can read: a number
beyond a double, or more than 100 levels) or ``payload_base64`` (anything else).
"""

from __future__ import annotations

import base64
import json
from dataclasses import asdict
from itertools import islice
from math import isfinite
from typing import Any

from claimq.item_options import ITEM_OPTIONS
from claimq.model import (
    Enqueued,
    Item,
    Located,
    RemovedItem,
    Snapshot,
    State,
    WorkerInfo,
)
from claimq_process.json_levels import levels_of

Json = dict[str, Any]
_LEVELS = 100


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


def item(source: Item, *, is_exact: bool = False) -> Json:
    """An item. ``is_exact``: with the payload as ``payload_base64``, which can be decoded to the same bytes."""
    exact = {"payload_base64": base64.b64encode(source.payload).decode()} if is_exact else None
    return {
        "id": source.id,
        **(exact or payload_of(source.payload)),
        "client": source.client,
        **options_of(source),
        "first_enqueued_at": source.first_enqueued_at,
        "enqueued_at": source.enqueued_at,
        "requeue_count": source.requeue_count,
        "fail_count": source.fail_count,
        "crash_count": source.crash_count,
        "interrupted_count": source.interrupted_count,
        "given_up_count": source.given_up_count,
        "last_error": source.last_error,
        "error_detail": source.error_detail,
        "history": list(map(asdict, source.history)),
    }


def located(source: Located, *, is_exact: bool = False) -> Json:
    """An item, as :func:`item`, and its state. Fields that do not apply to the state are null."""
    return {
        "state": source.state.value,
        "name": source.name or source.item.id,
        "worker": source.worker,
        "claimed_at": source.claimed_at,
        "lease_until": source.lease_until,
        "due_at": source.due_at,
        "failed_at": source.failed_at,
        "item": item(source.item, is_exact=is_exact),
    }


def removed(source: RemovedItem, *, is_exact: bool = False) -> Json:
    """An entry of the log of removed items: the first part of the payload, and its whole size."""
    return {
        "removed_at": source.removed_at,
        "reason": source.reason,
        "payload_size": source.payload_size,
        "item": item(source.item, is_exact=is_exact),
    }


def enqueued(queue: str, result_of_call: Enqueued) -> Json:
    """The result of an enqueue."""
    return {
        "queue": queue,
        "ids": list(result_of_call.ids),
        "length": result_of_call.length,
        "duplicates": list(result_of_call.duplicates),
    }


def status(queue: str, snapshot: Snapshot, workers: list[WorkerInfo]) -> Json:
    """A queue at one instant, and its workers."""
    return {
        "queue": queue,
        "now": snapshot.now,
        "paused": snapshot.paused,
        "lengths": {state.value: snapshot.lengths[state] for state in State},
        "ages": {state.value: snapshot.ages[state] for state in State},
        "next_due_in": snapshot.next_due_in,
        "counters": snapshot.counters,
        "workers": list(map(asdict, workers)),
    }


def lengths(queue: str, snapshot: Snapshot) -> Json:
    """How many items a queue has."""
    return {"queue": queue, "lengths": {state.value: snapshot.lengths[state] for state in State}}
