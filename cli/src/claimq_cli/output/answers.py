"""Prints the result of a command: a table or lines for people, or one JSON document."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click

from claimq.model import Item
from claimq_cli.output import terminal
from claimq_spec.duration import readable_duration

_SHOWN_PAYLOAD = 100


class Answers:
    """Prints results in the requested format."""

    def __init__(self, form: str) -> None:
        self.is_json = form == "json"

    def give(self, document: Any, *lines: str) -> None:
        """Prints the document as JSON, or the lines."""
        if self.is_json:
            click.echo(terminal.safe_json(document))
        else:
            terminal.say_lines(lines)

    def give_table(
        self,
        document: Any,
        columns: Sequence[str],
        rows: Sequence[Sequence[str]],
        *,
        nothing: str = "nothing",
    ) -> None:
        """The document as JSON, or rows for people; for the columns see `terminal.say_table`."""
        if self.is_json or not rows:
            self.give(document, nothing)
        else:
            terminal.say_table(columns, rows)


def payload(item: Item) -> str:
    """The first characters of a payload."""
    text = item.payload[: 4 * _SHOWN_PAYLOAD + 4].decode("utf-8", "backslashreplace")
    shown = terminal.safe(text[: _SHOWN_PAYLOAD + 1])
    return shown if len(text) <= _SHOWN_PAYLOAD else shown[:_SHOWN_PAYLOAD] + "…"


def age(seconds: float | None) -> str:
    """A rounded duration; a dash for None."""
    return "-" if seconds is None else readable_duration(seconds)


def instant(at: float | None) -> str:
    """An instant in the local time zone, for tables; a dash for None."""
    return "-" if at is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def iso_instant(at: float) -> str:
    """An instant as ISO 8601 with the local offset, to the second."""
    return datetime.fromtimestamp(at).astimezone().isoformat(timespec="seconds")


def count(number: int, noun: str = "item") -> str:
    """``1 item``, ``2,000 items``."""
    return f"{number} {noun}" if number == 1 else f"{number:,} {noun}s"
