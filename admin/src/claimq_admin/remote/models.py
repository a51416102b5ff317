"""The library's values from the documents of the API, and those of new items. Fields that a later version adds are
ignored. Pure.
"""

from __future__ import annotations

import base64
import dataclasses
from datetime import timedelta
from typing import Any, TypeVar, cast

from claimq.codec import payload_bytes
from claimq.item_options import ITEM_OPTIONS
from claimq.model import HistoryEntry, Item, Located, NewItem, Snapshot, State

T = TypeVar("T")
Json = dict[str, Any]
_ITEM = (
    "id", "enqueued_at", "first_enqueued_at", "client", "requeue_count", "fail_count", "crash_count",
    "interrupted_count", "given_up_count", "last_error", "error_detail",
)  # fmt: skip


def item_of(document: Json) -> Item:
    """An item whose payload is in base64."""
    fields: Json = {name: document[name] for name in _ITEM}
    options = {option.field: option.read(document.get(option.name)) for option in ITEM_OPTIONS}
    history = tuple(value_of(HistoryEntry, entry) for entry in document["history"])
    payload = base64.b64decode(document["payload_base64"])
    return Item(**fields, payload=payload, history=history, **options)


def located_of(document: Json) -> Located:
    """An item and where it is."""
    return value_of(Located, document, item=item_of(document["item"]), state=State(document["state"]))


def document_of(new: NewItem) -> Json:
    """The document of an item to enqueue: its payload in base64, and the options that are not the defaults. A page
    refuses those that it does not know."""
    _, *options = dataclasses.fields(NewItem)
    options_set = {
        field.name: value for field in options if (value := getattr(new, field.name)) != field.default
    }
    if isinstance(options_set.get("deadline"), timedelta):
        options_set["expires_in"] = options_set.pop("deadline").total_seconds()
    return {"payload_base64": base64.b64encode(payload_bytes(new.payload)).decode(), **options_set}


def value_of(kind: type[T], document: Json, **more_fields: object) -> T:
    """A value of the library from its fields. ``more_fields``: those that have another form in the document."""
    names = (field.name for field in dataclasses.fields(cast("Any", kind)))
    return kind(**{name: document[name] for name in names if name not in more_fields}, **more_fields)


def snapshot_of(document: Json) -> Snapshot:
    """A snapshot; ``seq`` and ``due_soon`` are 0."""
    lengths = {state: document["lengths"][state.value] for state in State}
    ages = {state: document["ages"][state.value] for state in State}
    return value_of(Snapshot, document, seq=0, due_soon=0, lengths=lengths, ages=ages)
