"""Shows the board of local mode: live on a terminal, as lines elsewhere."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from rich import box
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from claimq.concurrency.background_work import spawn
from claimq.model import State
from claimq_admin.escaping import safe
from claimq_admin.text import age
from claimq_local.screen.board import Board, Line, QueueBoard, WorkerRow

REFRESH_SECONDS = 0.2
PLAIN_SECONDS = 1.0
_SHOWN_LINES = 9
_SHOWN_NOTICES = 3
_FRAME = 4
"""Width of the outer frame in columns."""
_GAUGE = 10
"""Minimum width of the workers column; its bar may be cut."""
_OUTPUT_CLOSED = (OSError, SystemExit)
"""Raised by printing when the terminal or the pipe is closed. Local mode continues; only signals stop it."""
_MEASURING = Console(file=io.StringIO())
"""Wraps lines, and prints nothing."""
_STAGES = {"ready": "green", "starting": "yellow", "draining": "cyan", "waiting": "red"}


@asynccontextmanager
async def shown(board: Board, console: Console) -> AsyncGenerator[None]:
    """Shows the board inside the block: live if the console is a terminal, else as lines."""
    show = _live if console.is_terminal and not console.is_dumb_terminal else _lines
    task = spawn(show(board, console), name="display")
    await asyncio.sleep(0)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        board.on_line = None


async def _live(board: Board, console: Console) -> None:
    """Redraws; the last frame stays on the terminal."""
    try:
        await _redraw(board, console)
    except _OUTPUT_CLOSED:
        return


async def _redraw(board: Board, console: Console) -> None:
    with Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False) as live:
        try:
            while True:
                live.update(frame(board, console.height, console.width), refresh=True)
                await asyncio.sleep(REFRESH_SECONDS)
        finally:
            live.update(frame(board, console.height, console.width), refresh=True)


async def _lines(board: Board, console: Console) -> None:
    def show(line: Line) -> None:
        try:
            console.print(safe(f"{line.at} {line.text}"), highlight=False, markup=False, soft_wrap=True)
        except _OUTPUT_CLOSED:
            board.on_line = None

    for early in board.lines:
        show(early)
    board.on_line = show
    last: dict[str, object] = {}
    while True:
        await asyncio.sleep(PLAIN_SECONDS)
        for queue in board.queues.values():
            if (state := steady_state(queue)) != last.get(queue.name):
                last[queue.name] = state
                show(Line(time.strftime("%H:%M:%S"), status_line(queue)))


def steady_state(queue: QueueBoard) -> tuple[object, ...]:
    """What a new line is printed for when it changes: the state of a queue without its ages and rates."""
    lengths = None if queue.snapshot is None else dict(queue.snapshot.lengths)
    return queue.problem, lengths, queue.done, queue.ready, len(queue.workers)


def status_line(queue: QueueBoard) -> str:
    """The state of a queue as one line."""
    if queue.problem or queue.snapshot is None:
        return f"{queue.name}: {queue.problem or 'not observed yet'}"
    lengths = queue.snapshot.lengths
    states = "  ".join(f"{state.value} {lengths[state]:,}" for state in State)
    workers = f"{queue.ready} of {len(queue.workers)} workers ready" if queue.workers else "no worker"
    oldest = age(queue.snapshot.ages[State.MAIN])
    return f"{queue.name}: {states}  oldest {oldest}  done {queue.done:,} ({queue.rate:,.0f}/s)  {workers}"


def frame(board: Board, height: int, width: int) -> RenderableType:
    """The live display for a terminal of this height and width."""
    parts: list[RenderableType] = [_queues(board, width - _FRAME)]
    rows = [row for queue in board.queues.values() for row in queue.workers]
    notices = _notices(board, width - _FRAME, most=max(_SHOWN_NOTICES, height // 4))
    room = max(3, height - 15 - 2 * len(board.queues) - len(notices))
    if rows:
        parts.append(_workers(board, width - _FRAME, most=max(2, room - _SHOWN_LINES)))
    parts.extend(notices)
    parts.append(_decisions(board))
    parts.append(_log(board, most=max(3, min(_SHOWN_LINES, room - len(rows)))))
    title = Text.assemble(("claimq up", "bold"), _text("  " + board.title if board.title else "", "dim"))
    return Panel(
        Group(*parts),
        title=title,
        title_align="left",
        subtitle=_text(board.server, "dim"),
        subtitle_align="left",
        box=box.ROUNDED,
        border_style="blue",
        padding=(0, 1),
    )


def _notices(board: Board, width: int, most: int) -> list[Text]:
    """The conditions in whole lines, or, if these are more than ``most``, the first ones in a line each."""
    notices = [
        Text.assemble(_text(queue.name, "bold"), " ", _text(text, "yellow"))
        for queue in board.queues.values()
        for text in queue.attention
    ]
    lines = [line for notice in notices for line in notice.wrap(_MEASURING, width)]
    if len(lines) <= most:
        return lines
    for notice in notices:
        notice.truncate(width, overflow="ellipsis")
    return [*notices[: _SHOWN_NOTICES - 1], _text("claimq status shows these texts to their end", "dim")]


def _text(text: str, style: str = "") -> Text:
    """Foreign text, escaped."""
    return Text(safe(text), style)


def _or_lines(
    table: Table, rows: Sequence[Sequence[RenderableType]], lines: Sequence[str], room: int
) -> RenderableType:
    """The table, or the lines if the table does not fit without cutting numbers and names."""
    for row in rows:
        table.add_row(*row)
    widths = [
        [len(str(column.header)) for column in table.columns],
        *([cell_len(cell.plain) if isinstance(cell, Text) else _GAUGE for cell in row] for row in rows),
    ]
    if sum(map(max, zip(*widths, strict=True))) + 2 * len(table.columns) <= room:
        return table
    return Group(*(_text(line) for line in lines))


def _queues(board: Board, room: int) -> RenderableType:
    table = Table(box=None, expand=True, padding=(0, 1), header_style="dim")
    table.add_column("queue", no_wrap=True)
    for name in ("main", "busy", "delayed", "failed", "oldest", "done", "per s"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("workers", ratio=1, no_wrap=True)
    queues = board.queues.values()
    return _or_lines(
        table, [_queue_row(queue) for queue in queues], [status_line(queue) for queue in queues], room
    )


def _queue_row(queue: QueueBoard) -> list[RenderableType]:
    name = _text(queue.name, "bold")
    if queue.snapshot is None or queue.problem:
        return [name, *[_text("?", "yellow")] * 7, _text(queue.problem or "not observed yet", "yellow")]
    lengths = queue.snapshot.lengths
    busy_style = "cyan" if lengths[State.BUSY] else ""
    failed_style = "bold red" if lengths[State.FAILED] else ""
    return [
        Text.assemble(name, (" paused", "yellow") if queue.snapshot.paused else ""),
        _text(f"{lengths[State.MAIN]:,}"),
        _text(f"{lengths[State.BUSY]:,}", busy_style),
        _text(f"{lengths[State.DELAYED]:,}"),
        _text(f"{lengths[State.FAILED]:,}", failed_style),
        _text(age(queue.snapshot.ages[State.MAIN])),
        _text(f"{queue.done:,}", "green"),
        _text(f"{queue.rate:,.0f}"),
        _gauge(queue),
    ]


def _gauge(queue: QueueBoard) -> RenderableType:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column()
    bar = ProgressBar(
        total=max(queue.max_replicas, 1),
        completed=queue.ready,
        width=16,
        complete_style="green",
        finished_style="green",
    )
    grid.add_row(_text(f"{queue.ready} of {queue.max_replicas}"), bar)
    return grid


def _workers(board: Board, room: int, most: int) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, expand=True, padding=(0, 1), header_style="dim")
    table.add_column("worker", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("busy", justify="right")
    table.add_column("restarts", justify="right")
    table.add_column("sidecar", justify="right", no_wrap=True)
    table.add_column("app", justify="right", no_wrap=True)
    table.add_column("", ratio=1)
    rows = [row for queue in board.queues.values() for row in queue.workers]
    lines = [f"{row.name}: {row.stage}  busy {row.busy:,}  restarts {row.restarts:,}" for row in rows[:most]]
    cells = [_worker_row(row) for row in rows[:most]]
    if len(rows) > most:
        more = f"and {len(rows) - most:,} more"
        cells.append([_text(more, "dim"), *[Text()] * 6])
        lines.append(more)
    return _or_lines(table, cells, lines, room)


def _worker_row(row: WorkerRow) -> list[RenderableType]:
    return [
        _text(row.name),
        _text(row.stage, _STAGES.get(row.stage, "")),
        _text(f"{row.busy:,}"),
        _text(f"{row.restarts:,}", "yellow" if row.restarts else "dim"),
        _text(f"pid {row.sidecar_pid}" if row.sidecar_pid else "-", "dim"),
        _text(f"pid {row.app_pid}" if row.app_pid else "-", "dim"),
        Text(),
    ]


def _decisions(board: Board) -> Table:
    grid = Table.grid(padding=(0, 1), expand=True)
    for _ in range(3):
        grid.add_column(no_wrap=True)
    grid.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    for queue in board.queues.values():
        for row in queue.decisions:
            arrow = _text(f"-> {row.replicas}", "dim")
            grid.add_row(_text(row.at, "dim"), arrow, _text(row.rule, "dim"), _text(row.reason, "dim"))
        if queue.decision is not None:
            target = "unchanged" if queue.decision.replicas is None else str(queue.decision.replicas)
            now = _text(target, "bold")
            grid.add_row(
                _text("now", "bold"),
                now,
                _text(queue.decision.rule.value, "magenta"),
                _text(queue.decision.reason),
            )
    return grid


def _log(board: Board, most: int) -> Table:
    grid = Table.grid(padding=(0, 1), expand=True)
    grid.add_column(no_wrap=True)
    grid.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    grid.add_row("", "")
    for line in list(board.lines)[-most:]:
        grid.add_row(_text(line.at, "dim"), _text(line.text, "yellow" if line.is_trouble else ""))
    return grid
