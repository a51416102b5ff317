"""Draws `claimq top`. Foreign text is escaped. Names, ids and numbers are never cut."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.text import Text

from claimq.model import Located, State
from claimq_admin.escaping import safe
from claimq_admin.reads.queue_reads import attention, note_of
from claimq_admin.text import age, payload, reasons_text
from claimq_cli.output import terminal
from claimq_cli.top.view import QueueRow, View

_KEYS = "q quit   ↑↓ select   enter open   s sort   / filter"
_GAP = "   "
"""Between texts that are not columns of a table."""
_INDENT = "  "
"""Before the lines of a block, except for the first one."""
_COLUMNS = ("queue", ">main", ">oldest", ">busy", ">delayed", ">failed", ">in/s", ">done/s", ">workers")
_CLAIM_COLUMNS = ("in progress", "worker", ">for", ">requeued", ">crashed", "~payload")


def frame(view: View, console: Console) -> RenderableType:
    """The whole screen for this terminal."""
    return _queue(view, view.rows[view.opened], console) if view.opened else _queues(view, console)


def _queues(view: View, console: Console) -> RenderableType:
    rows = view.shown()
    names = [row.name for row in rows]
    at = names.index(view.selected) if view.selected in names else -1
    of = f"{len(rows):,} of {len(view.rows):,} queues" if view.filter else f"{len(rows):,} queues"
    title = [Text("claimq top", "bold"), Text(of), Text(f"sorted by {view.sort}")]
    if view.is_typing or view.filter:
        title.append(_text(f"filter: {view.filter}{'▏' if view.is_typing else ''}"))
    columns = [f"{column} ▼" if column.lstrip(">") == view.sort else column for column in _COLUMNS]
    return _screen(view, console, [title], (columns, [_cells(row) for row in rows]), keys=_KEYS, at=at)


def _cells(row: QueueRow) -> list[Text]:
    if row.problem or row.snapshot is None:
        return [_text(row.name, "red" if row.problem else ""), *(Text("-") for _ in _COLUMNS[1:])]
    failed = row.length(State.FAILED)
    note = note_of(row.snapshot)
    return [
        _text(f"{row.name} ({note})" if note else row.name, "yellow" if note else ""),
        _text(f"{row.length(State.MAIN):,}"),
        _text(age(row.snapshot.ages[State.MAIN])),
        _text(f"{row.length(State.BUSY):,}"),
        _text(f"{row.length(State.DELAYED):,}"),
        _text(f"{failed:,}", "red" if failed else ""),
        _text(f"{row.rate('enqueued'):,.1f}"),
        _text(f"{row.rate('done'):,.1f}"),
        _text(row.workers_text),
    ]


def _queue(view: View, row: QueueRow, console: Console) -> RenderableType:
    """One queue with what is in progress, longest first."""
    title = [[Text("claimq top", "bold"), _text(row.name, "bold")]]
    keys = "q quit   esc back"
    if row.problem or row.snapshot is None:
        return _screen(view, console, title, ((), ()), keys=keys)
    now = row.snapshot.now
    figures = [f"{state.value} {row.length(state):,}" for state in State]
    figures += [
        f"oldest {age(row.snapshot.ages[State.MAIN])}",
        f"in {row.rate('enqueued'):,.1f}/s",
        f"done {row.rate('done'):,.1f}/s",
        f"workers {row.workers_text}",
    ]
    note = attention(row.snapshot, lambda verb: f"{view.command} {verb} {row.name}")
    command = f"{view.command} failed reasons {row.name}"
    failed = f"failed: {reasons_text(view.reasons)}; all: {command}" if view.reasons else ""
    notes = [(note, "yellow"), (failed, "red")]
    title += [[Text(figure) for figure in figures], *([_text(*pair)] for pair in notes if pair[0])]
    table = (_CLAIM_COLUMNS, [_claim_cells(claim, now) for claim in view.claims])
    return _screen(view, console, title, table, keys=keys)


def _claim_cells(claim: Located, now: float) -> Sequence[Text]:
    item = claim.item
    return [
        _text(item.id),
        _text(claim.worker or "-"),
        _text(age(None if claim.claimed_at is None else max(now - claim.claimed_at, 0.0))),
        _text(f"{item.requeue_count:,}"),
        _text(f"{item.crash_count:,}"),
        _text(payload(claim)),
    ]


_Table = tuple[Sequence[str], Sequence[Sequence[Text]]]
"""Columns as for :func:`terminal.say_table`, and the cells of each row."""


def _screen(
    view: View, console: Console, title: Sequence[Sequence[Text]], table: _Table, *, keys: str, at: int = -1
) -> RenderableType:
    """The title, as many rows as there is room for, and an error or the keys. The selected row (``at``) is shown."""
    error = view.note or next((row.problem for row in view.rows.values() if row.problem), "")
    last = _filled([_text(error, "red") if error else Text(keys, "dim")], console)
    head, rows = _laid_out(table, console)
    head = [*(line for pieces in title for line in _filled(pieces, console)), *head]
    if at >= 0:
        for line in rows[at]:
            line.stylize("reverse")
    room = max(1, console.height - len(head) - len(last) - 1)
    return Group(*head, *_window(rows, max(at, 0), room), *last)


def _laid_out(table: _Table, console: Console) -> tuple[list[Text], list[list[Text]]]:
    """The heading, and the lines of each row: one, or a block of lines if the table does not fit the terminal."""
    columns, rows = table
    if not columns:
        return [], []
    names = [name.lstrip(">~") for name in columns]
    widths = terminal.column_widths(columns, [[cell.plain for cell in row] for row in rows], console.width)
    if widths is None:
        return [], [_block(columns, row, console) for row in rows]
    to_right = [name.startswith(">") for name in columns]
    head = [
        _line([Text(name, "bold") for name in names], widths, to_right),
        Text(terminal.GAP.join("─" * width for width in widths)),
    ]
    return head, [[_line(row, widths, to_right)] for row in rows]


def _line(cells: Sequence[Text], widths: Sequence[int], to_right: Sequence[bool]) -> Text:
    for cell, width, is_right in zip(cells, widths, to_right, strict=True):
        cell.truncate(width, overflow="ellipsis")
        cell.align("right" if is_right else "left", width)
    return Text(terminal.GAP).join(cells)


def _block(columns: Sequence[str], row: Sequence[Text], console: Console) -> list[Text]:
    """A row as a line with its first cell and indented lines with the other ones."""
    pieces: list[Text] = []
    for name, cell in zip(columns[1:], row[1:], strict=True):
        piece = Text.assemble(f"{name.lstrip('>~')} ", cell)
        if name.startswith("~"):
            piece.truncate(console.width - len(_INDENT), overflow="ellipsis")
        pieces.append(piece)
    below = _filled(pieces, console, console.width - len(_INDENT))
    return [*_filled(row[:1], console), *(Text.assemble(_INDENT, line) for line in below)]


def _filled(pieces: Sequence[Text], console: Console, width: int | None = None) -> list[Text]:
    """Lines with as many pieces as fit on each. A piece that is wider than a line is wrapped."""
    width = max(1, width or console.width)
    lines: list[Text] = []
    for piece in pieces:
        joined = Text(_GAP).join([lines[-1], piece]) if lines else piece
        if lines and joined.cell_len <= width:
            lines[-1] = joined
        else:
            lines.append(piece)
    return [part for line in lines for part in line.wrap(console, width, overflow="fold")]


def _window(rows: Sequence[Sequence[Text]], at: int, room: int) -> list[Text]:
    """The lines of as many whole rows as there is room for, with row ``at`` near the middle."""
    first, end = at, min(at + 1, len(rows))
    used = sum(map(len, rows[first:end]))
    while first > 0 and used + len(rows[first - 1]) <= room // 2:
        first -= 1
        used += len(rows[first])
    while end < len(rows) and used + len(rows[end]) <= room:
        used += len(rows[end])
        end += 1
    while first > 0 and used + len(rows[first - 1]) <= room:
        first -= 1
        used += len(rows[first])
    return [line for row in rows[first:end] for line in row][:room]


def _text(text: str, style: str = "") -> Text:
    return Text(safe(text), style)
