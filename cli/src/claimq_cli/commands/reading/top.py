"""`claimq top`: a live view of queues on a terminal."""

from __future__ import annotations

import asyncio
import os
import sys
import termios
import tty
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress

import click
from rich.console import Console
from rich.live import Live

import claimq
from claimq.errors import ClaimqError
from claimq.model import State
from claimq_admin.errors import NOT_DONE, CommandError, text_of
from claimq_admin.reads.queue_reads import SHOWN_PAYLOAD, status_of
from claimq_cli.commands.options.context import Context, with_context
from claimq_cli.commands.options.option_types import Duration
from claimq_cli.commands.options.queue_argument import optional_queue_argument
from claimq_cli.commands.options.sources import Source
from claimq_cli.top.screen import frame
from claimq_cli.top.view import QueueRow, View, keys_in

MOST_QUEUES = 1000
_AT_ONCE = 20
_SHOWN_CLAIMS = 100


@click.command()
@optional_queue_argument
@click.option("--interval", type=Duration(), default=2.0, help="Time between two readings.  [default: 2s]")
@with_context
async def top(context: Context, name: str | None, interval: float) -> int | None:
    """Show queues live on a terminal.

    Lengths, age of the oldest item, rates, workers, and what is in progress; with NAME of this queue alone.

    Keys: arrows select a queue and Enter opens it, `s` sorts by the next column, `/` filters by name, `q` ends. It
    changes no queue.

    \b
    claimq top
    claimq -n shop top thumbnails
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise CommandError("claimq top needs a terminal; use `claimq status`", NOT_DONE)
    async with context.sources(name) as sources:
        if name is not None:
            await sources[0].check(name)
        await _show(View(opened=name or "", command=context.command), sources, max(interval, 0.1))
    return None


async def _show(view: View, sources: Sequence[Source], interval: float) -> None:
    """Until the user ends it."""
    console, changed, ended = Console(), asyncio.Event(), asyncio.Event()
    if view.opened:
        view.rows[view.opened] = QueueRow(view.opened)
    with Live(console=console, screen=True, auto_refresh=False) as live:

        def draw() -> None:
            live.update(frame(view, console), refresh=True)

        def press(typed: bytes) -> None:
            opened = view.opened
            for key in keys_in(typed):
                view.press(key)
            if view.is_ended:
                ended.set()
            elif view.opened != opened:
                changed.set()
            draw()

        async def keep_reading() -> None:
            while not view.is_ended:
                changed.clear()
                await read_once(view, sources)
                draw()
                with suppress(TimeoutError):
                    async with asyncio.timeout(interval):
                        await changed.wait()

        with _keyboard(press):
            async with asyncio.TaskGroup() as tasks:
                reader = tasks.create_task(keep_reading())
                await ended.wait()
                reader.cancel()


async def read_once(view: View, sources: Sequence[Source]) -> None:
    """Reads all queues, or the opened one with its claims. An error becomes the problem of its queues."""
    is_one = len(sources) == 1
    for source in sources:
        names = sorted(source.known)
        try:
            if view.opened:
                names = [view.opened] if is_one or view.opened in source.known else []
            else:
                names = await source.first_names(MOST_QUEUES)
                if is_one:
                    view.rows = {
                        queue_name: view.rows.get(queue_name, QueueRow(queue_name)) for queue_name in names
                    }
            view.note = ""
        except (ClaimqError, CommandError) as error:
            view.note = text_of(error)
            names = names or list(view.rows)
        if not view.opened and await _read_together(view, source, names):
            continue
        for start in range(0, len(names), _AT_ONCE):
            await asyncio.gather(
                *(
                    _read_one(view, source.queue(queue_name), queue_name)
                    for queue_name in names[start : start + _AT_ONCE]
                )
            )


async def _read_together(view: View, source: Source, names: Sequence[str]) -> bool:
    """Reads queues with few round trips. False if one cannot be read: read one by one, they show which."""
    try:
        statuses = await source.statuses(names)
    except (ClaimqError, CommandError):
        return False
    for name, status in zip(names, statuses, strict=True):
        view.rows.setdefault(name, QueueRow(name)).see(*status)
    return True


async def _read_one(view: View, queue: claimq.ReliableQueue, name: str) -> None:
    row = view.rows.setdefault(name, QueueRow(name))
    try:
        snapshot, workers = await status_of(queue)
        row.see(snapshot, workers)
        if name == view.opened:
            claims = await queue.longest_claims(_SHOWN_CLAIMS, payload_limit=SHOWN_PAYLOAD)
            reasons = await queue.failed_reasons() if row.length(State.FAILED) else {}
            if name == view.opened:
                view.claims, view.reasons = claims, reasons
    except (ClaimqError, CommandError) as error:
        row.problem = text_of(error)


@contextmanager
def _keyboard(pressed: Callable[[bytes], None]) -> Generator[None]:
    """Calls ``pressed`` with what is typed, without waiting for the end of a line."""
    loop, stdin = asyncio.get_running_loop(), sys.stdin.fileno()
    before = termios.tcgetattr(stdin)
    tty.setcbreak(stdin)
    loop.add_reader(stdin, lambda: pressed(os.read(stdin, 1024)))
    try:
        yield
    finally:
        loop.remove_reader(stdin)
        termios.tcsetattr(stdin, termios.TCSADRAIN, before)
