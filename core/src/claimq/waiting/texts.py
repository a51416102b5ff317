"""Instants, pauses and limits as text for people. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime

from claimq.limits import Limit, Limits, Pause, Per, TemporaryLimit, Unit, check_limits


def instant_text(at: float) -> str:
    """Unix seconds as every table and sentence shows them: ISO 8601 in whole seconds, in the time zone of the machine,
    with its offset (``Z`` for UTC). Fields of JSON documents are in UTC."""
    moment = datetime.fromtimestamp(at, UTC)
    with suppress(OverflowError):  # the last hours of the year 9999
        moment = moment.astimezone()
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def pause_text(pause: Pause) -> str:
    """Who paused a queue or a part of it, when, why and until when. It has instants, not ages, so that it stays the
    same."""
    part = (
        f"the key {pause.key} is " if pause.key else f"the client {pause.client} is " if pause.client else ""
    )
    words = [part + ("closed by its app" if pause.by_app else "paused")]
    words += [f"{'in' if pause.by_app else 'by'} {pause.by}"] if pause.by else []
    words += [f"since {instant_text(pause.at)}"] if pause.at is not None else []
    until = "it is resumed" if pause.until is None else instant_text(pause.until)
    words += [f"until {until if pause.closed_from is None else instant_text(pause.closed_from)}"]
    words += [f"({pause.reason})"] if pause.reason else []
    closing = "" if pause.closed_from is None else f", then closed by its app until {until}"
    return printable(" ".join(words) + closing)


def paused_text(pause: Pause) -> str:
    """The same as a sentence of its own."""
    return ("the queue is " if pause.is_of_queue else "") + pause_text(pause)


def changes_text(changes: Iterable[TemporaryLimit], limits: Iterable[Limit]) -> str:
    """For each of these limits that is changed for a time: until when, by whom and why, behind a semicolon."""
    names = {limit.name for limit in limits}
    return "".join(f"; {_change_text(change)}" for change in changes if change.name in names)


def _change_text(change: TemporaryLimit) -> str:
    by = f" by {change.by}" if change.by else ""
    reason = f" ({change.reason})" if change.reason else ""
    return printable(f"{change.name} is set until {instant_text(change.until)}{by}{reason}")


def printable(text: str) -> str:
    """Text of other users without control characters."""
    return "".join(character if character.isprintable() else " " for character in text)


def read_limits(written: str) -> Limits:
    """The limits that a person wrote: ``api:rate=100/s,burst=200;licences:busy=20``. Raises ValueError."""
    return check_limits("limits", [_read(limit) for limit in written.split(";") if limit])


def _read(limit: str) -> Limit:
    name, colon, settings = limit.partition(":")
    values: dict[str, str] = {}
    for setting in settings.split(",") if colon else ():
        key, equals, value = setting.partition("=")
        if key not in ("rate", "burst", "busy", "per", "unit") or not equals:
            raise ValueError(
                f"{setting!r} of {name} is no setting; write rate=100/s, burst=200, busy=20, per=client, per=key or "
                "unit=cost"
            )
        if key in values:
            raise ValueError(f"{name} has {key} twice; give it once")
        values[key] = value
    return Limit(
        name,
        values.get("rate"),
        _whole(values, "burst"),
        _whole(values, "busy"),
        values.get("per", Per.QUEUE),
        values.get("unit", Unit.ITEMS),
    )


def _whole(values: dict[str, str], key: str) -> int | None:
    value = values.get(key)
    if value is not None and not re.fullmatch("[0-9]{1,9}", value, re.ASCII):
        raise ValueError(f"{key} is {value!r}; write a whole number")
    return None if value is None else int(value)
