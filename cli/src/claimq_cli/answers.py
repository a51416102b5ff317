"""What a command prints when it succeeds: a table or a line for people, or one JSON document."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from claimq.duration import format_duration
from claimq.model import Item

_SHOWN_PAYLOAD = 100


class Answers:
    """Prints, in the form that was asked for."""

    def __init__(self, form: str) -> None:
        self.is_json = form == "json"

    def give(self, document: Any, text: str) -> None:
        """The document as JSON, or the text for people."""
        click.echo(json.dumps(document, ensure_ascii=False, indent=2) if self.is_json else text)

    def give_table(
        self,
        document: Any,
        columns: Sequence[str],
        rows: Sequence[Sequence[str]],
        *,
        nothing: str = "nothing",
    ) -> None:
        """The document as JSON, or rows for people. Columns that begin with '>' are aligned to the right."""
        if self.is_json:
            self.give(document, "")
            return
        if not rows:
            click.echo(nothing)
            return
        table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
        for name in columns:
            table.add_column(
                name.removeprefix(">"),
                justify="right" if name.startswith(">") else "left",
                no_wrap=True,
                overflow="ellipsis" if name == columns[-1] else "fold",
            )
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        _print(table)


def _print(table: Table) -> None:
    """As wide as the terminal; in a pipe as wide as the rows are."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=10_000)
        console = Console(highlight=False, width=max(console.measure(table).maximum, 20))
    with console.capture() as captured:
        console.print(table)
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def payload(item: Item) -> str:
    """The beginning of a payload, with what cannot be printed escaped."""
    text = item.payload.decode("utf-8", "backslashreplace")
    shown = "".join(
        letter if letter.isprintable() else repr(letter)[1:-1] for letter in text[: _SHOWN_PAYLOAD + 1]
    )
    return shown if len(text) <= _SHOWN_PAYLOAD else shown[:_SHOWN_PAYLOAD] + "…"


def age(seconds: float | None) -> str:
    """A duration for people: tenths below ten seconds, a dash where there is none."""
    if seconds is None:
        return "-"
    return format_duration(round(seconds)) if seconds >= 10 else f"{max(seconds, 0.0):.1f}s"


def instant(at: float | None) -> str:
    """An instant for people, in their time zone."""
    return "-" if at is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def count(number: int, noun: str = "item") -> str:
    """``1 item``, ``2 items``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
