"""Prints the result of a command: a table or lines for people, or a document for programs."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click
import yaml

from claimq.model import Item
from claimq_cli.output import terminal
from claimq_spec.duration import readable_duration

FORMS = ("table", "wide", "name", "json", "yaml", "ndjson")
"""The formats: tables and lines for people; the same with whole columns; only names, a line each; JSON; YAML; JSON with
each row on a line of its own."""
_DOCUMENTS = frozenset({"json", "yaml", "ndjson"})
_SHOWN_PAYLOAD = 100


class Answers:
    """Prints results in the requested format."""

    def __init__(self, form: str) -> None:
        self._form = form
        self.is_document = form in _DOCUMENTS
        """Whether the result is printed as a document."""

    def give(self, document: Any, *lines: str, each: str = "") -> None:
        """Prints the document, or the lines. ``each``: the field that has the rows, which are a line each in NDJSON."""
        match self._form:
            case "json":
                click.echo(terminal.safe_json(document))
            case "yaml":
                click.echo(yaml.safe_dump(document, sort_keys=False), nl=False)
            case "ndjson":
                for record in document[each] if each else [document]:
                    click.echo(json.dumps(record))
            case "name" if (names := _names(document)) is not None:
                terminal.say_lines(names)
            case _:
                terminal.say_lines(lines)

    def give_table(
        self,
        document: Any,
        columns: Sequence[str],
        rows: Sequence[Sequence[str]],
        *,
        nothing: str = "nothing",
        each: str = "",
    ) -> None:
        """The document, or rows for people; for the columns see `terminal.say_table`, for ``each`` see :meth:`give`."""
        if self._form == "name":
            terminal.say_lines([row[0].partition(" ")[0] for row in rows])  # no name has a blank
        elif self.is_document or not rows:
            self.give(document, nothing, each=each)
        else:
            terminal.say_table(columns, rows, is_wide=self._form == "wide")


def _names(document: Any) -> list[str] | None:
    """The ids of the items that a command has enqueued or changed, or the name of its queue; None without these."""
    for field in ("ids", "changed"):
        if field in document:
            return list(document[field])
    return [document["queue"]] if document.get("queue") else None


def payload(item: Item) -> str:
    """The first characters of a payload."""
    text = item.payload[: 4 * _SHOWN_PAYLOAD + 4].decode("utf-8", "backslashreplace")
    shown = terminal.safe(text[: _SHOWN_PAYLOAD + 1])
    return shown if len(text) <= _SHOWN_PAYLOAD else shown[:_SHOWN_PAYLOAD] + "…"


def age(seconds: float | None) -> str:
    """A rounded duration; a dash for None."""
    return "-" if seconds is None else readable_duration(seconds)


def instant(at: float | None) -> str:
    """An instant in the local time zone, for tables; a dash for None, and for 0, which bare payloads have before their
    first claim.
    """
    return "-" if not at else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def iso_instant(at: float) -> str:
    """An instant as ISO 8601 with the local offset, to the second."""
    return datetime.fromtimestamp(at).astimezone().isoformat(timespec="seconds")


def count(number: int, noun: str = "item") -> str:
    """``1 item``, ``2,000 items``."""
    return f"{number} {noun}" if number == 1 else f"{number:,} {noun}s"
