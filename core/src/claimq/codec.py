"""Payloads to bytes, and the stored form of an item (its *envelope*) to :class:`Item`.

An envelope is one ASCII header line and the payload's bytes: ``cq1 ID ENQUEUED_AT_MS CLIENT META\\n``. CLIENT
is ``-`` for none, META is ``-`` or a JSON object with the counters and the history. ``cq1!`` marks an item
that has crashed a worker. Only the scripts on the server write envelopes; this module reads them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from claimq.errors import InvalidName
from claimq.model import HistoryEntry, Item

_LONGEST_ERROR = 1000
_LONGEST = {"queue": 200, "worker": 200, "client": 128, "id": 200}


def payload_bytes(payload: object) -> bytes:
    """The bytes to store: bytes-like as they are, text as UTF-8, a dict or list as JSON. Raises
    :class:`TypeError` for others."""
    if isinstance(payload, bytes):
        return payload
    if isinstance(payload, str):
        return payload.encode()
    if isinstance(payload, bytearray):
        return bytes(payload)
    if isinstance(payload, memoryview):
        return payload.tobytes()
    if isinstance(payload, (dict, list)):
        return json.dumps(payload, separators=(",", ":"), ensure_ascii=False).encode()
    raise TypeError(
        f"a payload is bytes, text, or a dict or list (stored as JSON), not {type(payload).__name__}; "
        "put a single number, boolean or null into a list or encode it yourself"
    )


def check_name(kind: str, name: str) -> str:
    """Returns a name of a queue, worker, client or item that can be used; raises :class:`InvalidName` naming
    the broken rule."""
    longest = _LONGEST[kind]
    if not name or len(name) > longest:
        raise InvalidName(f"a {kind} name has 1 to {longest} characters; {name[:40]!r} has {len(name)}")
    if not (name.isascii() and name.isprintable() and " " not in name):
        raise InvalidName(f"the {kind} name {name!r} may only have printable ASCII characters without spaces")
    if kind == "queue" and not (name[0].isalnum() and all(c.isalnum() or c in "._-" for c in name)):
        raise InvalidName(
            f"the queue name {name!r} may only have letters, digits, '.', '_' and '-', and begins with a letter "
            "or digit; braces and colons have a meaning in the server's keys"
        )
    if (kind == "client" and name == "-") or (kind == "worker" and not set(name).isdisjoint("/{}*?[]\\%")):
        raise InvalidName(
            f"{name!r} cannot name a {kind}: '-' alone, and / {{ }} * ? [ ] % \\ in a worker, "
            "have a meaning of their own"
        )
    return name


def kept_error(error: str) -> str:
    """As much of an error's text as is kept with an item."""
    return error[:_LONGEST_ERROR].encode("utf-8", "replace").decode()


def read_envelope(raw: bytes, token: str = "") -> Item:
    """The item in an envelope; what has no header is a bare payload of another Redis client, named after the
    claim's number."""
    header, found, payload = raw.partition(b"\n")
    fields = header[4:].split(b" ", 3)
    if not found or header[:4] not in (b"cq1 ", b"cq1!") or len(fields) != 4 or not fields[1].isdigit():
        return Item(
            id=f"bare-{token.rpartition('/')[2]}", payload=raw, enqueued_at=0.0, first_enqueued_at=0.0
        )
    at = int(fields[1]) / 1000
    client = None if fields[2] == b"-" else fields[2].decode("ascii", "replace")
    item_id = fields[0].decode("ascii", "replace")
    if fields[3] == b"-":
        return Item(item_id, payload, at, at, client)
    return _with_meta(item_id, payload, at, client, fields[3])


def _with_meta(item_id: str, payload: bytes, at: float, client: str | None, raw: bytes) -> Item:
    meta = _json_object(raw)
    return Item(
        id=item_id,
        payload=payload,
        enqueued_at=at,
        first_enqueued_at=meta.get("first_at", at * 1000) / 1000,
        client=client,
        requeue_count=meta.get("requeues", 0),
        fail_count=meta.get("fails", 0),
        crash_count=meta.get("crashes", 0),
        interrupted_count=meta.get("interrupts", 0),
        given_up_count=meta.get("given_up", 0),
        last_error=meta.get("error"),
        history=tuple(_history_entry(entry) for entry in meta.get("history", ())),
    )


def _json_object(raw: bytes) -> dict[str, Any]:
    try:
        value: Any = json.loads(raw.decode("utf-8", "replace"))
    except ValueError:
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _history_entry(entry: Mapping[str, Any]) -> HistoryEntry:
    return HistoryEntry(entry["at"] / 1000, entry["kind"], entry.get("error", ""), entry.get("worker", ""))
