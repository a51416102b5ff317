"""Values as text for people: durations, instants, counts, payloads."""

from __future__ import annotations

import time
from datetime import datetime

from claimq.item_options import Form, set_options
from claimq.model import Item
from claimq_admin.escaping import safe
from claimq_process.duration import readable_duration

_SHOWN_PAYLOAD = 100


def payload(item: Item) -> str:
    """The first characters of a payload."""
    text = item.payload[: 4 * _SHOWN_PAYLOAD + 4].decode("utf-8", "backslashreplace")
    shown = safe(text[: _SHOWN_PAYLOAD + 1])
    return shown if len(text) <= _SHOWN_PAYLOAD else shown[:_SHOWN_PAYLOAD] + "…"


def age(seconds: float | None) -> str:
    """A rounded duration; a dash for None."""
    return "-" if seconds is None else readable_duration(seconds)


def instant(at: float | None) -> str:
    """An instant in the local time zone, for tables; a dash for None, and for 0, which bare payloads have before their
    first claim.
    """
    return "-" if not at else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def option_texts(item: Item) -> dict[str, str]:
    """The options that an item has, without its headers, by their titles."""
    return {
        option.title: instant(value) if option.form is Form.INSTANT else str(value)
        for option, value in set_options(item)
        if option.form is not Form.HEADERS
    }


def iso_instant(at: float) -> str:
    """An instant as ISO 8601 with the local offset, to the second."""
    return datetime.fromtimestamp(at).astimezone().isoformat(timespec="seconds")


def count(number: int, noun: str = "item") -> str:
    """``1 item``, ``2,000 items``."""
    return f"{number} {noun}" if number == 1 else f"{number:,} {noun}s"
