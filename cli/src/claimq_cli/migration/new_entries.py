"""How items become entries of the queue systems that can be imported: the reverse of the layouts."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NoReturn, cast

from claimq.codec import BARE_ID
from claimq.model import Item, Located, State
from claimq_cli.migration.layout import Entry, Job, Kept, Layout, NewEntry
from claimq_cli.migration.layouts import RQ, BullMQ, ReliableFIFO, Sidekiq

_HIGHEST_PRIORITY, _LONGEST_NUMBER = 2**21 - 1, 15
_RESERVED = re.compile(
    "active|wait|waiting-children|paused|id|delayed|prioritized|stalled|stalled-check|completed|failed|repeat|limiter|"
    "meta|events|pc|marker|de|metrics"
)
"""What follows the queue's name in keys of BullMQ that are no jobs."""
_MEMBER = re.compile(r'\s*[{,]\s*"(name|data|opts)"\s*:\s*')
_PICKLED_CALL = re.compile(rb"\x80[\x02-\x05].*t(?:\x94|q.|r.{4})?\.", re.DOTALL)
"""A pickle of a tuple of more than three values. It is never read."""


class Unwritable(Exception):
    """The item cannot be an entry of this system; the message is the reason and what to do."""


@dataclass(frozen=True, slots=True)
class JobOptions:
    """What jobs get that items do not have: ``name`` (None: only items that are jobs already can be written) and, in
    RQ, ``timeout`` in seconds."""

    name: str | None = None
    timeout: int = 180


def new_entry(layout: Layout, one: Located, options: JobOptions, now: float) -> NewEntry:
    """The entry of an item. Raises Unwritable."""
    match layout:
        case RQ():
            return _rq_entry(layout.name, one, options, now)
        case BullMQ():
            return _bullmq_entry(layout.name, one, options, now)
        case Sidekiq():
            return NewEntry(_sidekiq_job(layout.name, one.item), one.due_at)
        case ReliableFIFO():
            return NewEntry(b'{"b":%b,"t":%d}' % (_as_json(one.item), int(now)))
        case _:
            return NewEntry(one.item.payload)


def is_written(layout: Layout, entry: NewEntry, job: Job) -> bool:
    """Whether a job of the target with the same id is the entry's: an import would make the same item of both, and it
    still waits or was created at the same time."""
    if isinstance(layout, BullMQ):
        created_at, is_waiting = b"timestamp", b"processedOn" not in job
    else:
        created_at, is_waiting = b"created_at", job.get(b"status") in (b"queued", b"scheduled")
    if not is_waiting and job.get(created_at) != entry.job[created_at]:
        return False
    place = Entry(0, None, entry.value)
    try:
        return layout.item(place, job).payload == layout.item(place, entry.job).payload
    except Kept:
        return False


def _rq_entry(queue: str, one: Located, options: JobOptions, now: float) -> NewEntry:
    item, is_scheduled = one.item, one.due_at is not None
    data = item.payload
    if not _is_call_of_rq(data):
        if options.name is None:
            raise Unwritable(
                "the payload is no call as RQ's serializer writes it; add --job-name MODULE.FUNCTION, and RQ calls "
                "this function with the payload"
            )
        data = _pickled_call(options.name, data)
    fields: dict[str, object] = {
        "status": "scheduled" if is_scheduled else "queued",
        "created_at": _instant_of_rq(item.first_enqueued_at or now),
        "enqueued_at": "" if is_scheduled else _instant_of_rq(now),
        "origin": queue,
        "description": f"item {item.id}",
        "timeout": options.timeout,
    }
    name = _own_name(one)
    job_id = name if re.fullmatch("[A-Za-z0-9_-]+", name) else _readable_digest(name)
    return NewEntry(job_id.encode(), one.due_at, {**_job(fields), b"data": zlib.compress(data)})


def _is_call_of_rq(payload: bytes) -> bool:
    if _PICKLED_CALL.fullmatch(payload):
        return True
    match _json_value(payload):
        case [str(), object(), list(), dict()]:
            return True
        case _:
            return False


def _pickled_call(function: str, payload: bytes) -> bytes:
    """A pickle, protocol 4, of ``(function, None, (payload,), {})`` with the payload as text, or bytes if it is not
    UTF-8."""
    try:
        payload.decode()
    except UnicodeDecodeError:
        kind = b"B"
    else:
        kind = b"X"
    name = function.encode()
    sizes = len(name).to_bytes(4, "little"), len(payload).to_bytes(4, "little")
    return b"\x80\x04(X%b%bN%b%b%b\x85}t." % (sizes[0], name, kind, sizes[1], payload)


def _instant_of_rq(instant: float) -> str:
    return datetime.fromtimestamp(instant, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _bullmq_entry(queue: str, one: Located, options: JobOptions, now: float) -> NewEntry:
    item, due_at = one.item, one.due_at
    job = _json_object(item.payload)
    name, opts = job.get("name"), job.get("opts")
    parts = _members(item.payload.decode()) if job.keys() == {"name", "data", "opts"} else {}
    if len(parts) == 3 and isinstance(name, str) and isinstance(opts, dict):
        settings = cast("dict[str, Any]", opts)
    elif options.name is not None:
        name, settings = options.name, {}
        parts = {"data": _as_json(item).decode(), "opts": '{"attempts":0}'}
    else:
        raise Unwritable(
            "the payload is not a JSON object with the name, data and opts of a job; add --job-name NAME, and the "
            "payload becomes the data of jobs with this name"
        )
    created = round((item.first_enqueued_at or now) * 1000)
    fields: dict[str, object] = {
        "name": name,
        "data": parts["data"],
        "opts": parts["opts"],
        "timestamp": created,
        "delay": 0 if due_at is None else max(0, round(due_at * 1000) - created),
        "priority": _priority(settings),
    }
    if isinstance(schedule := settings.get("repeatJobKey"), str):
        fields["rjk"] = schedule
    match settings:
        case {"de": {"id": str(deduplication)}}:
            fields["deid"] = deduplication
        case _:
            pass
    return NewEntry(_id_in_bullmq(queue, _own_name(one)).encode(), due_at, _job(fields))


def _members(text: str) -> dict[str, str]:
    """The members of a JSON object, with the values as they are written: numbers and escapes stay the same."""
    found: dict[str, str] = {}
    at = 0
    while start := _MEMBER.match(text, at):
        _, at = _DECODER.raw_decode(text, start.end())
        found[start[1]] = text[start.end() : at]
    return found


def _priority(settings: dict[str, Any]) -> int:
    priority = settings.get("priority", 0)
    if type(priority) is not int or not 0 <= priority <= _HIGHEST_PRIORITY:
        raise Unwritable(f"opts.priority of the job is not a number from 0 to {_HIGHEST_PRIORITY:,}")
    return priority


def _id_in_bullmq(queue: str, name: str) -> str:
    """An id that came from this queue of BullMQ is as it was. Others must not look like a key or a number of BullMQ."""
    own = name.removeprefix(f"{queue}:")
    is_taken = _RESERVED.fullmatch(own) or (own.isdigit() and (own == name or len(own) > _LONGEST_NUMBER))
    is_usable = re.fullmatch(r"[^:]+|repeat:[^:]+:\d+", own) and not is_taken
    return own if is_usable else _readable_digest(name)


def _sidekiq_job(queue: str, item: Item) -> bytes:
    match _json_value(item.payload):
        case {"class": str(), "args": list(), "jid": str(), "queue": str(own)} if own == queue:
            return item.payload
        case _:
            raise Unwritable(
                f'the payload is not the JSON of a job of Sidekiq, with class, args, jid and the queue "{queue}"; '
                f"--to list:queue:{queue} writes any payload"
            )


def _own_name(one: Located) -> str:
    """The id of an item, or its name beside other failed items with the same id. Items that were pushed as bare
    payloads have no id that stays."""
    if one.item.id.startswith(BARE_ID):
        return f"claimq-{uuid.uuid4().hex}"
    name = one.name if one.state is State.FAILED else one.item.id
    return re.sub("@[0-9a-f]{12}$", "", name)  # what an import adds


def _readable_digest(name: str) -> str:
    """An id of letters, digits, '_' and '-' that follows from this name and from no other."""
    digest = hashlib.sha256(name.encode()).hexdigest()
    return f"{re.sub('[^A-Za-z0-9_-]', '-', name)[:100]}-{digest[:16]}"


def _job(fields: dict[str, object]) -> Job:
    return {name.encode(): str(value).encode("utf-8", "replace") for name, value in fields.items()}


def _as_json(item: Item) -> bytes:
    """The payload in JSON: objects and lists as they are, other text as a string."""
    if isinstance(_json_value(item.payload), (dict, list)):
        return item.payload
    try:
        return json.dumps(item.payload.decode(), ensure_ascii=False).encode()
    except UnicodeDecodeError:
        raise Unwritable(
            "the payload is not UTF-8 text, which JSON cannot contain; export it to a file"
        ) from None


def _json_value(payload: bytes) -> object:
    """The JSON value of a payload; None if it is not JSON in UTF-8."""
    try:
        return cast("object", _DECODER.decode(payload.decode()))
    except (ValueError, RecursionError):
        return None


def _json_object(payload: bytes) -> dict[str, Any]:
    """The JSON object in a payload; an empty one if it is not an object."""
    found = _json_value(payload)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _no_number(name: str) -> NoReturn:
    raise ValueError(name)


_DECODER = json.JSONDecoder(parse_constant=_no_number)
"""Refuses NaN and Infinity, which only Python reads."""
