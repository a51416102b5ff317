"""Draws `claimq top`. Foreign text is escaped."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from claimq.model import Located, State
from claimq_cli.output import terminal
from claimq_cli.output.answers import age, payload
from claimq_cli.top.view import QueueRow, View

_LINES_AROUND = 5
"""Lines of the screen that hold no row: title, heading, its rule, the line of keys, and the last one."""
_KEYS = "q quit   ↑↓ select   enter open   s sort   / filter"
_COLUMNS = ("queue", "main", "oldest", "busy", "delayed", "failed", "in/s", "done/s")


def frame(view: View, height: int) -> RenderableType:
    """The whole screen for a terminal of this height."""
    room = max(1, height - _LINES_AROUND)
    if view.opened:
        return _queue(view, view.rows[view.opened], room)
    rows = view.shown()
    table = _table()
    for name in _COLUMNS:
        heading = f"{name} ▼" if name == view.sort else name
        table.add_column(heading, justify="left" if name == "queue" else "right", no_wrap=True)
    names = [row.name for row in rows]
    at = names.index(view.selected) if view.selected in names else -1
    first = max(0, min(at - room // 2, len(rows) - room))
    for row in rows[first : first + room]:
        table.add_row(*_cells(row), style="reverse" if row.name == view.selected else "")
    of = f"{len(rows):,} of {len(view.rows):,} queues" if view.filter else f"{len(rows):,} queues"
    title = Text.assemble(("claimq top", "bold"), f"   {of}   sorted by {view.sort}")
    if view.is_typing or view.filter:
        title.append(f"   filter: {terminal.safe(view.filter)}{'▏' if view.is_typing else ''}")
    return Group(title, table, _last_line(view, _KEYS))


def _cells(row: QueueRow) -> list[Text]:
    if row.problem or row.snapshot is None:
        return [_text(row.name, "red" if row.problem else ""), *(Text("-") for _ in _COLUMNS[1:])]
    failed = row.length(State.FAILED)
    name = f"{row.name} (paused)" if row.snapshot.paused else row.name
    return [
        _text(name, "yellow" if row.snapshot.paused else ""),
        _text(f"{row.length(State.MAIN):,}"),
        _text(age(row.snapshot.ages[State.MAIN])),
        _text(f"{row.length(State.BUSY):,}"),
        _text(f"{row.length(State.DELAYED):,}"),
        _text(f"{failed:,}", "red" if failed else ""),
        _text(f"{row.rate('enqueued'):,.1f}"),
        _text(f"{row.rate('done'):,.1f}"),
    ]


def _queue(view: View, row: QueueRow, room: int) -> RenderableType:
    """One queue with what is in progress, longest first."""
    title = Text.assemble(("claimq top", "bold"), "   ", _text(row.name, "bold"))
    if row.problem or row.snapshot is None:
        return Group(title, _last_line(view, "q quit   esc back"))
    states = "   ".join(f"{state.value} {row.length(state):,}" for state in State)
    rates = f"in {row.rate('enqueued'):,.1f}/s   done {row.rate('done'):,.1f}/s"
    oldest = age(row.snapshot.ages[State.MAIN])
    table = _table()
    for name in ("in progress", "worker", "for", "requeued", "crashed", "payload"):
        table.add_column(
            name, justify="right" if name in {"for", "requeued", "crashed"} else "left", no_wrap=True
        )
    for one in view.claims[: room - 1]:
        table.add_row(*_claim_cells(one, row.snapshot.now))
    return Group(
        title,
        Text(f"{states}   oldest {oldest}   {rates}"),
        table,
        _last_line(view, "q quit   esc back"),
    )


def _claim_cells(one: Located, now: float) -> Sequence[Text]:
    item = one.item
    return [
        _text(item.id),
        _text(one.worker or "-"),
        _text(age(None if one.claimed_at is None else max(now - one.claimed_at, 0.0))),
        _text(f"{item.requeue_count:,}"),
        _text(f"{item.crash_count:,}"),
        _text(payload(item)),
    ]


def _table() -> Table:
    return Table(box=box.SIMPLE_HEAD, padding=(0, 1), show_edge=False, expand=True)


def _last_line(view: View, keys: str) -> Text:
    """The first error, or the keys."""
    error = view.note or next((row.problem for row in view.rows.values() if row.problem), "")
    return _text(error, "red") if error else Text(keys, "dim")


def _text(text: str, style: str = "") -> Text:
    return Text(terminal.safe(text), style)
