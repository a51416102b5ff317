"""Converts payloads to bytes, and the stored form of an item (its *envelope*) to :class:`Item`.

An envelope is one ASCII header line and the payload's bytes: ``cq1 ID ENQUEUED_AT_MS CLIENT META\\n``. CLIENT
is ``-`` for none, META is ``-`` or a JSON object with the counters, the history and the options. ``cq1!`` marks an
item that has crashed a worker. Only the scripts on the server write envelopes.
"""

from __future__ import annotations

import json
import re
import traceback
from functools import lru_cache
from typing import Any, cast

from claimq.arguments import instant, seconds, text
from claimq.errors import InvalidName
from claimq.item_options import are_options, checked_key, item_fields, options_word, read_options
from claimq.model import HistoryEntry, Item, NewItem, construct
from claimq.tokens import number_of

BARE_ID = "bare-"
"""What the id of a bare payload begins with; before its first claim it is the whole id and names no item yet."""
_LONGEST_ERROR, _LONGEST_DETAIL = 1000, 2000
_FRAMES, _CAUSES = 8, 2
_LONGEST = {"queue": 200, "worker": 200, "client": 128, "id": 200}


def payload_bytes(payload: object) -> bytes:
    """The bytes to store: bytes as they are, text as UTF-8, a dict or list as JSON. Raises :class:`TypeError` for other
    types and for values that JSON cannot represent, :class:`ValueError` for NaN, infinity and lone surrogates."""
    if isinstance(payload, bytes):
        return payload
    if isinstance(payload, bytearray):
        return bytes(payload)
    if isinstance(payload, memoryview):
        return payload.tobytes()
    try:
        return _encoded(payload)
    # A lone surrogate, NaN, a list within itself, too many levels.
    except (ValueError, RecursionError) as error:
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


def name_part(text: str) -> str:
    """The text as a part of a worker's name: other letters become dashes. At most 100 are left; "host" for none."""
    return re.sub("[^A-Za-z0-9._-]", "-", text)[:100] or "host"


def check_name(kind: str, name: str) -> str:
    """Returns a valid name of a queue, worker, client or item. Raises :class:`InvalidName` that names the broken
    rule, TypeError for anything but text."""
    longest = _LONGEST[kind]
    text(kind, name)
    subject = "item id" if kind == "id" else f"{kind} name"
    if not name or len(name) > longest:
        raise InvalidName(f"the {subject} has 1 to {longest} characters; {name[:40]!r} has {len(name)}")
    if not (name.isascii() and name.isprintable() and " " not in name):
        raise InvalidName(f"the {subject} {name!r} may only have printable ASCII characters without spaces")
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


def text_of(word: bytes | str) -> str:
    """A name or another word in a reply of the server."""
    return word.decode("utf-8", "replace") if isinstance(word, bytes) else word


def part_of_queue(client: str | None, key: str | None) -> str:
    """What a pause is of, as the scripts name it: "queue", "client NAME" or "key KEY". Raises InvalidName, ValueError,
    and TypeError for anything but text."""
    if client is not None:
        check_name("client", client)
    if client is not None and key is not None:
        raise ValueError("client and key are both given; give one of them")
    return f"client {client}" if client is not None else "queue" if key is None else f"key {checked_key(key)}"


def kept_error(error: str) -> str:
    """The part of an error's text that is kept with an item."""
    return text("error", error)[:_LONGEST_ERROR].encode("utf-8", "replace").decode()


def kept_detail(detail: str) -> str:
    """The part of an error's detail that is kept with an item: its end, where the innermost frames are."""
    return text("detail", detail)[-_LONGEST_DETAIL:].encode("utf-8", "replace").decode()


_ENVELOPE = re.compile(rb"cq1[ !]([!-~]{1,200}) (\d{1,13}) ([!-~]{1,128}) ([^\n]+)\n(.*)", re.DOTALL)
_ESCAPE = re.compile(rb'\\(?:["\\/bfnrt]|u00[0-9a-fA-F]{2})')
_BETWEEN = re.compile(rb'([^"]*)"[^"]*"')
_WORD = re.compile(rb"[^{}\[\],:]+")
_PLAIN_WORD = re.compile(rb"true|false|null|0|[1-9][0-9]{0,12}")
_LONGEST_META, _LEVELS, _HISTORY = 65536, 8, 10
_WITHOUT_META = tuple(Item._field_defaults.values())[1:]
"""The values of the fields after ``client`` of an item without META, which most are."""
_NUMBERS = ("requeues", "fails", "crashes", "interrupts", "postponed", "given_up", "first_at")


def due_word(new: NewItem) -> str:
    """When a new item is due, for the scripts; "" for one that is not delayed. Raises TypeError or ValueError."""
    if new.delay is not None and new.at is not None:
        raise ValueError("an item has a delay or an instant 'at', not both")
    if new.delay is not None:
        delay = seconds("delay", new.delay)
        return f"+{round(delay * 1000)}" if delay > 0 else ""
    if new.at is not None:
        return str(round(instant("at", new.at) * 1000))
    return ""


def check_new_item(new: NewItem) -> None:
    """Raises TypeError, ValueError or InvalidName for invalid options, as an enqueue does."""
    if new.id is not None:
        check_name("id", new.id)
    if new.client is not None:
        check_name("client", new.client)
    due_word(new)
    options_word(new)


def read_envelope(raw: bytes, token: str = "") -> Item:
    """The item in an envelope. Any other value is the payload of an item that another Redis client pushed; its id is
    made of the claim's number. ``lua/lib/envelope.lua`` has the same rules."""
    match = _ENVELOPE.match(raw)
    if match is None:
        return _bare(raw, token)
    item_id, entered_at, name, text, payload = match.groups()
    at = int(entered_at) / 1000
    client = None if name == b"-" else name.decode("ascii")
    if text == b"-":
        return construct(Item, (item_id.decode(), payload, at, at, client) + _WITHOUT_META)  # noqa: RUF005 - unpacking takes a third longer
    meta = _read_meta(text)
    if meta is None:
        return _bare(raw, token)
    return Item(
        id=item_id.decode("ascii"),
        payload=payload,
        enqueued_at=at,
        first_enqueued_at=meta.get("first_at", round(at * 1000)) / 1000,
        client=client,
        requeue_count=meta.get("requeues", 0),
        fail_count=meta.get("fails", 0),
        crash_count=meta.get("crashes", 0),
        interrupted_count=meta.get("interrupts", 0),
        postponed_count=meta.get("postponed", 0),
        given_up_count=meta.get("given_up", 0),
        last_error=meta.get("error"),
        history=tuple(map(_history_entry, meta.get("history", ()))),
        error_detail=meta.get("detail"),
        failed_reason=meta.get("reason"),
        **item_fields(read_options(meta.get("options", {}))),
    )


def _bare(payload: bytes, token: str) -> Item:
    number = number_of(token) if token else ""
    return Item(id=f"{BARE_ID}{number}", payload=payload, enqueued_at=0.0, first_enqueued_at=0.0)


def _read_meta(text: bytes) -> dict[str, Any] | None:
    """The counters, the history and the options of a header; None if no script can have written it."""
    if text[:1] != b"{" or len(text) > _LONGEST_META or not _is_plain_json(text):
        return None
    try:
        meta: dict[str, Any] = json.loads(text.decode("utf-8", "replace"), strict=False)
    except ValueError:
        return None
    kinds = dict.fromkeys(_NUMBERS, int) | {
        "error": str,
        "detail": str,
        "reason": str,
        "spent": bool,
        "place": str,
    }
    if any(name in meta and type(meta[name]) is not kind for name, kind in kinds.items()):
        return None
    place = meta.get("place", "0")
    if not re.fullmatch("[0-9]{1,16}", place) or int(place) >= 2**53:
        return None
    if "options" in meta and not are_options(meta["options"]):
        return None
    return meta if _is_history(meta.get("history", [])) else None


def _history_entry(entry: dict[str, Any]) -> HistoryEntry:
    return HistoryEntry(entry["at"] / 1000, entry["kind"], entry["error"], entry["worker"])


def _is_history(history: object) -> bool:
    if history == {}:  # as the scripts' encoder writes an empty list
        return True
    if not isinstance(history, list):
        return False
    entries = cast("list[object]", history)
    return len(entries) <= _HISTORY and all(map(_is_entry, entries))


def _is_entry(entry: object) -> bool:
    kinds = {"at": int, "kind": str, "error": str, "worker": str}
    if not isinstance(entry, dict):
        return False
    fields = cast("dict[str, object]", entry)
    return all(type(fields.get(name)) is kind for name, kind in kinds.items())


def _is_plain_json(text: bytes) -> bool:
    """Whether a text is JSON as the scripts write it: no spaces, only the encoder's escapes, and outside of strings
    only whole numbers of up to 13 digits, true, false and null, in few levels."""
    text = _ESCAPE.sub(b"", text)
    if b"\\" in text or b"\x00" in text:
        return False
    level = 0
    for between in _BETWEEN.findall(text + b'""'):
        levels = _levels_in(between)
        if levels is None or level + levels[0] > _LEVELS:
            return False
        level += levels[0] - levels[1]
    return True


@lru_cache(maxsize=1000)  # most text between strings is the same in all items
def _levels_in(between: bytes) -> tuple[int, int] | None:
    """How many levels it opens and closes; None if it has any other word."""
    if not all(_PLAIN_WORD.fullmatch(word) for word in _WORD.findall(between)):
        return None
    return between.count(b"{") + between.count(b"["), between.count(b"}") + between.count(b"]")


def last_frames(error: BaseException, *, without: str = "") -> str:
    """The last frames of an exception and of its causes, innermost last: one line each with file, line and function.

    Without source lines, values and the texts of causes, which may contain secrets. ``without``: a file whose frames
    are left out.
    """
    lines: list[str] = []
    cause: BaseException | None = error
    for _ in range(1 + _CAUSES):
        if cause is None:
            break
        if lines:
            lines.append(f"caused by {type(cause).__name__}")
        frames = [frame for frame in traceback.extract_tb(cause.__traceback__) if frame.filename != without]
        lines += [f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in frames[-_FRAMES:]]
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return "\n".join(lines)
