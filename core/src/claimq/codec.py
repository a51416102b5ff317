"""Payloads to bytes, and the stored form of an item (its *envelope*) to :class:`Item`.

An envelope is one ASCII header line and the payload's bytes: ``cq1 ID ENQUEUED_AT_MS CLIENT META\\n``. CLIENT
is ``-`` for none, META is ``-`` or a JSON object with the counters and the history. ``cq1!`` marks an item
that has crashed a worker. Only the scripts on the server write envelopes; this module reads them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from claimq.errors import InvalidName
from claimq.model import HistoryEntry, Item
from claimq.tokens import number_of

_LONGEST_ERROR, _LONGEST_DETAIL = 1000, 2000
_LONGEST = {"queue": 200, "worker": 200, "client": 128, "id": 200}


def payload_bytes(payload: object) -> bytes:
    """The bytes to store: bytes-like as they are, text as UTF-8, a dict or list as JSON. Raises
    :class:`TypeError` for others and for what JSON has no form for, :class:`ValueError` for NaN, infinity, a lone
    surrogate."""
    if isinstance(payload, bytes):
        return payload
    if isinstance(payload, bytearray):
        return bytes(payload)
    if isinstance(payload, memoryview):
        return payload.tobytes()
    try:
        return _encoded(payload)
    except ValueError as error:  # a lone surrogate, NaN, a list within itself
        raise ValueError(
            f"this payload cannot be stored as text or JSON ({error}); encode it to bytes yourself"
        ) from error


def _encoded(payload: object) -> bytes:
    if isinstance(payload, str):
        return payload.encode()
    if isinstance(payload, (dict, list)):
        return json.dumps(payload, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
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


def kept_detail(detail: str) -> str:
    """As much of an error's detail as is kept with an item: its end, where the innermost frames are."""
    return detail[-_LONGEST_DETAIL:].encode("utf-8", "replace").decode()


_HEADER = re.compile(rb"cq1[ !](\S+) (\d{1,15}) (\S+) ([^\n]*)\n")


def read_envelope(raw: bytes, token: str = "") -> Item:
    """The item in an envelope; what has no header is a bare payload of another Redis client, named after the
    claim's number."""
    header = _HEADER.match(raw)
    if header is None:
        number = number_of(token) if token else ""
        return Item(id=f"bare-{number}", payload=raw, enqueued_at=0.0, first_enqueued_at=0.0)
    item_id, at_ms, client, meta = header.groups()
    at = int(at_ms) / 1000
    payload = raw[header.end() :]
    named = None if client == b"-" else client.decode("ascii", "replace")
    if meta == b"-":
        return Item(item_id.decode("ascii", "replace"), payload, at, at, named)
    return _with_meta(item_id.decode("ascii", "replace"), payload, at, named, meta)


def _with_meta(item_id: str, payload: bytes, at: float, client: str | None, raw: bytes) -> Item:
    """What another client may have pushed in place of a number, a text or a list counts as absent."""
    meta = _json_object(raw)
    history, error, detail = meta.get("history"), meta.get("error"), meta.get("detail")
    entries = cast("list[object]", history) if isinstance(history, list) else []
    return Item(
        id=item_id,
        payload=payload,
        enqueued_at=at,
        first_enqueued_at=_number(meta, "first_at", round(at * 1000)) / 1000,
        client=client,
        requeue_count=_number(meta, "requeues"),
        fail_count=_number(meta, "fails"),
        crash_count=_number(meta, "crashes"),
        interrupted_count=_number(meta, "interrupts"),
        given_up_count=_number(meta, "given_up"),
        last_error=error if isinstance(error, str) else None,
        error_detail=detail if isinstance(detail, str) else None,
        history=tuple(
            _history_entry(cast("dict[str, Any]", entry)) for entry in entries if isinstance(entry, dict)
        ),
    )


def _number(meta: Mapping[str, Any], name: str, absent: int = 0) -> int:
    value = meta.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:
        return absent
    return int(value)


def _json_object(raw: bytes) -> dict[str, Any]:
    try:
        value: Any = json.loads(raw.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _history_entry(entry: Mapping[str, Any]) -> HistoryEntry:
    kind, error, worker = (
        value if isinstance(value := entry.get(name), str) else "" for name in ("kind", "error", "worker")
    )
    return HistoryEntry(at=_number(entry, "at") / 1000, kind=kind, error=error, worker=worker)
