"""How local mode shows itself: live on a terminal, plain lines elsewhere."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from claimq.model import State
from claimq_cli.answers import age
from claimq_cli.local.board import Board, Line, QueueBoard

REFRESH_SECONDS = 0.2
PLAIN_SECONDS = 1.0
_SHOWN_LINES = 9
_NOBODY_READS = (OSError, SystemExit)
"""What printing raises when the terminal or the pipe is gone. Local mode goes on: signals stop it, not this."""
_STAGES = {"ready": "green", "starting": "yellow", "draining": "cyan", "waiting": "red"}


@asynccontextmanager
async def shown(board: Board, console: Console) -> AsyncGenerator[None]:
    """Shows the board while the block runs: live if the console is a terminal, else lines."""
    show = _live if console.is_terminal and not console.is_dumb_terminal else _lines
    task = asyncio.create_task(show(board, console))
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
    except _NOBODY_READS:
        return


async def _redraw(board: Board, console: Console) -> None:
    with Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False) as live:
        try:
            while True:
                live.update(frame(board, console.height), refresh=True)
                await asyncio.sleep(REFRESH_SECONDS)
        finally:
            live.update(frame(board, console.height), refresh=True)


async def _lines(board: Board, console: Console) -> None:
    def show(line: Line) -> None:
        try:
            console.print(f"{line.at} {line.text}", highlight=False, markup=False, soft_wrap=True)
        except _NOBODY_READS:
            board.on_line = None

    for early in board.lines:
        show(early)
    board.on_line = show
    last: dict[str, str] = {}
    while True:
        await asyncio.sleep(PLAIN_SECONDS)
        for queue in board.queues.values():
            text = status_line(queue)
            if text != last.get(queue.name):
                last[queue.name] = text
                show(Line(time.strftime("%H:%M:%S"), text))


def status_line(queue: QueueBoard) -> str:
    """A queue in one line."""
    if queue.problem or queue.snapshot is None:
        return f"{queue.name}: {queue.problem or 'not yet seen'}"
    lengths = queue.snapshot.lengths
    states = "  ".join(f"{state.value} {lengths[state]}" for state in State)
    workers = f"{queue.ready} of {len(queue.workers)} workers ready" if queue.workers else "no worker"
    oldest = age(queue.snapshot.ages[State.MAIN])
    return f"{queue.name}: {states}  oldest {oldest}  done {queue.done} ({queue.rate:.0f}/s)  {workers}"


def frame(board: Board, height: int) -> RenderableType:
    """The whole live display, for a terminal of so many lines."""
    parts: list[RenderableType] = [_queues(board)]
    rows = [row for queue in board.queues.values() for row in queue.workers]
    room = max(3, height - 15 - 2 * len(board.queues))
    if rows:
        parts.append(_workers(board, most=max(2, room - _SHOWN_LINES)))
    parts.append(_decisions(board))
    parts.append(_log(board, most=max(3, min(_SHOWN_LINES, room - len(rows)))))
    title = Text.assemble(("claimq up", "bold"), ("  " + board.title if board.title else "", "dim"))
    return Panel(
        Group(*parts),
        title=title,
        title_align="left",
        subtitle=Text(board.server, style="dim"),
        subtitle_align="left",
        box=box.ROUNDED,
        border_style="blue",
        padding=(0, 1),
    )


def _queues(board: Board) -> Table:
    table = Table(box=None, expand=True, padding=(0, 1), header_style="dim")
    table.add_column("queue", no_wrap=True)
    for name in ("main", "busy", "delayed", "failed", "oldest", "done", "per s"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("workers", ratio=1, no_wrap=True)
    for queue in board.queues.values():
        table.add_row(*_queue_row(queue))
    return table


def _queue_row(queue: QueueBoard) -> list[RenderableType]:
    name = Text(queue.name, style="bold")
    if queue.snapshot is None or queue.problem:
        return [name, *[Text("?", style="yellow")] * 7, Text(queue.problem or "not yet seen", style="yellow")]
    lengths = queue.snapshot.lengths
    busy_style = "cyan" if lengths[State.BUSY] else ""
    failed_style = "bold red" if lengths[State.FAILED] else ""
    return [
        Text.assemble(name, (" paused", "yellow") if queue.snapshot.paused else ""),
        Text(f"{lengths[State.MAIN]:,}"),
        Text(f"{lengths[State.BUSY]:,}", style=busy_style),
        Text(f"{lengths[State.DELAYED]:,}"),
        Text(f"{lengths[State.FAILED]:,}", style=failed_style),
        Text(age(queue.snapshot.ages[State.MAIN])),
        Text(f"{queue.done:,}", style="green"),
        Text(f"{queue.rate:,.0f}"),
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
    grid.add_row(Text(f"{queue.ready} of {queue.max_replicas}"), bar)
    return grid


def _workers(board: Board, most: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, expand=True, padding=(0, 1), header_style="dim")
    table.add_column("worker", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("in hand", justify="right")
    table.add_column("restarts", justify="right")
    table.add_column("sidecar", justify="right", no_wrap=True)
    table.add_column("app", justify="right", no_wrap=True)
    table.add_column("", ratio=1)
    rows = [row for queue in board.queues.values() for row in queue.workers]
    for row in rows[:most]:
        table.add_row(
            row.name,
            Text(row.stage, style=_STAGES.get(row.stage, "")),
            str(row.busy),
            Text(str(row.restarts), style="yellow" if row.restarts else "dim"),
            Text(f"pid {row.sidecar_pid}" if row.sidecar_pid else "-", style="dim"),
            Text(f"pid {row.app_pid}" if row.app_pid else "-", style="dim"),
            "",
        )
    if len(rows) > most:
        table.add_row(Text(f"and {len(rows) - most} more", style="dim"), *[""] * 6)
    return table


def _decisions(board: Board) -> Table:
    grid = Table.grid(padding=(0, 1), expand=True)
    for _ in range(3):
        grid.add_column(no_wrap=True)
    grid.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    for queue in board.queues.values():
        for row in queue.decisions:
            arrow = Text(f"-> {row.replicas}", style="dim")
            grid.add_row(
                Text(row.at, style="dim"), arrow, Text(row.rule, style="dim"), Text(row.reason, style="dim")
            )
        if queue.decision is not None:
            wanted = "as is" if queue.decision.replicas is None else str(queue.decision.replicas)
            now = Text(f"want {wanted}", style="bold")
            grid.add_row(
                Text("now", style="bold"),
                now,
                Text(queue.decision.rule.value, style="magenta"),
                queue.decision.reason,
            )
    return grid


def _log(board: Board, most: int) -> Table:
    grid = Table.grid(padding=(0, 1), expand=True)
    grid.add_column(no_wrap=True)
    grid.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    grid.add_row("", "")
    for line in list(board.lines)[-most:]:
        grid.add_row(Text(line.at, style="dim"), Text(line.text, style="yellow" if line.is_trouble else ""))
    return grid
