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
        value = json.loads(text, parse_constant=_no_number, parse_float=_finite)
    except (ValueError, RecursionError):
        return {"text": text}
    return {"payload": value} if _has_few_levels(value) else {"text": text}


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _finite(number: str) -> float:
    value = float(number)
    if not isfinite(value):
        raise ValueError(f"{number[:40]} is beyond the range of a double")
    return value


def _has_few_levels(value: object) -> bool:
    """Whether each encoder can write it: those of JSON and YAML call themselves for each level."""
    return next(islice(levels_of(value), _LEVELS, None), None) is None


def options_of(one: Item) -> Json:
    """The options that its producer gave."""
    return {option.name: option.of(one) for option in ITEM_OPTIONS}


def item(one: Item, *, is_exact: bool = False) -> Json:
    """An item. ``is_exact``: with the payload as ``payload_base64``, which can be decoded to the same bytes."""
    exact = {"payload_base64": base64.b64encode(one.payload).decode()} if is_exact else None
    return {
        "id": one.id,
        **(exact or payload_of(one.payload)),
        "client": one.client,
        **options_of(one),
        "first_enqueued_at": one.first_enqueued_at,
        "enqueued_at": one.enqueued_at,
        "requeue_count": one.requeue_count,
        "fail_count": one.fail_count,
        "crash_count": one.crash_count,
        "interrupted_count": one.interrupted_count,
        "given_up_count": one.given_up_count,
        "last_error": one.last_error,
        "error_detail": one.error_detail,
        "history": list(map(asdict, one.history)),
    }


def located(one: Located, *, is_exact: bool = False) -> Json:
    """An item, as :func:`item`, and its state. Fields that do not apply to the state are null."""
    return {
        "state": one.state.value,
        "name": one.name or one.item.id,
        "worker": one.worker,
        "claimed_at": one.claimed_at,
        "lease_until": one.lease_until,
        "due_at": one.due_at,
        "failed_at": one.failed_at,
        "item": item(one.item, is_exact=is_exact),
    }


def removed(one: RemovedItem, *, is_exact: bool = False) -> Json:
    """An entry of the log of removed items: the first part of the payload, and its whole size."""
    return {
        "removed_at": one.removed_at,
        "reason": one.reason,
        "payload_size": one.payload_size,
        "item": item(one.item, is_exact=is_exact),
    }


def enqueued(queue: str, one: Enqueued) -> Json:
    """The result of an enqueue."""
    return {"queue": queue, "ids": list(one.ids), "length": one.length, "duplicates": list(one.duplicates)}


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
