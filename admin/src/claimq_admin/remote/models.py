"""The library's values from the documents of the API, and those of new items. Fields that a later version adds are
ignored. Pure.
"""

from __future__ import annotations

import base64
import dataclasses
from datetime import timedelta
from typing import Any

from claimq.codec import payload_bytes
from claimq.item_options import ITEM_OPTIONS
from claimq.model import (
    AuditRecord,
    ClientInfo,
    Enqueued,
    HistoryEntry,
    Item,
    Located,
    NewItem,
    RemovedItem,
    Snapshot,
    State,
    WorkerInfo,
)

Json = dict[str, Any]
_ITEM = (
    "id", "enqueued_at", "first_enqueued_at", "client", "requeue_count", "fail_count", "crash_count",
    "interrupted_count", "given_up_count", "last_error", "error_detail",
)  # fmt: skip
_LOCATED = ("name", "worker", "claimed_at", "lease_until", "due_at", "failed_at")


def item_of(document: Json) -> Item:
    """An item whose payload is in base64."""
    fields: Json = {name: document[name] for name in _ITEM}
    options = {option.field: option.read(document.get(option.name)) for option in ITEM_OPTIONS}
    history = (
        HistoryEntry(one["at"], one["kind"], one["error"], one["worker"]) for one in document["history"]
    )
    return Item(
        **fields,
        payload=base64.b64decode(document["payload_base64"]),
        history=tuple(history),
        **options,
    )


def located_of(document: Json) -> Located:
    """An item and where it is."""
    fields: Json = {name: document[name] for name in _LOCATED}
    return Located(item=item_of(document["item"]), state=State(document["state"]), **fields)


def document_of(new: NewItem) -> Json:
    """The document of an item to enqueue: its payload in base64, and the options that are not the defaults. A page
    refuses those that it does not know."""
    _, *options = dataclasses.fields(NewItem)
    given = {one.name: value for one in options if (value := getattr(new, one.name)) != one.default}
    if isinstance(given.get("deadline"), timedelta):
        given["expires_in"] = given.pop("deadline").total_seconds()
    return {"payload_base64": base64.b64encode(payload_bytes(new.payload)).decode(), **given}


def enqueued_of(document: Json) -> Enqueued:
    """The result of an enqueue."""
    return Enqueued(tuple(document["ids"]), document["length"], tuple(document["duplicates"]))


def removed_of(document: Json) -> RemovedItem:
    """An entry of the log of removed items."""
    return RemovedItem(
        item_of(document["item"]), document["removed_at"], document["reason"], document["payload_size"]
    )


def record_of(document: Json) -> AuditRecord:
    """An entry of the audit log."""
    return AuditRecord(
        document["at"], document["actor"], document["action"], document["target"], document["count"]
    )


def worker_of(document: Json) -> WorkerInfo:
    """A worker."""
    return WorkerInfo(document["worker"], document["busy"], document["last_seen_at"])


def client_of(document: Json) -> ClientInfo:
    """A client."""
    return ClientInfo(document["client"], document["length"])


def snapshot_of(document: Json) -> Snapshot:
    """A snapshot; ``seq`` and ``due_soon`` are 0."""
    return Snapshot(
        now=document["now"],
        seq=0,
        lengths={state: document["lengths"][state.value] for state in State},
        ages={state: document["ages"][state.value] for state in State},
        counters=document["counters"],
        next_due_in=document["next_due_in"],
        paused=document["paused"],
    )
