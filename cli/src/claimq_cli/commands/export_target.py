"""Writes the items of an export to their target: a file, stdout, or a queue of another system."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from claimq.model import Located
from claimq_cli.commands.context import Context
from claimq_cli.commands.export_options import Target
from claimq_cli.errors import INTERRUPTED, NOT_DONE, REFUSED, USAGE, CommandError
from claimq_cli.migration.item_writer import ItemWriter, new_file
from claimq_cli.migration.layout import Layout, NewEntry
from claimq_cli.migration.new_entries import JobOptions, Unwritable, new_entry
from claimq_cli.migration.target_server import TargetServer
from claimq_cli.output.answers import count
from claimq_cli.output.progress import Progress
from claimq_cli.output.terminal import say_error
from claimq_cli.queue_reads import ReadableQueue
from claimq_cli.rate_limit import UNLIMITED, Pace
from claimq_cli.server_choice import settings_for_other
from claimq_cli.stop_signals import stopping

Store = Callable[[list[Located]], Awaitable[int]]
"""Writes items; when it returns, they are stored. Returns how many of them the target had already."""
Portions = Callable[[ReadableQueue, Pace, asyncio.Event, bool], AsyncGenerator[list[Located]]]
"""Reads the items to export in portions until the event is set, and takes them out of the queue if the last argument is
true."""


@dataclass(slots=True)
class _Check:
    """How many items there are, and why some of them cannot be written."""

    total: int = 0
    problems: Counter[str] = field(default_factory=Counter[str])
    examples: dict[str, str] = field(default_factory=dict[str, str])

    def add(self, layout: Layout, one: Located, jobs: JobOptions) -> None:
        try:
            new_entry(layout, one, jobs, 0)
        except Unwritable as why:
            self.problems[str(why)] += 1
            self.examples.setdefault(str(why), one.item.id)

    def say(self) -> None:
        for why, number in self.problems.items():
            say_error(f"{count(number)} cannot be written: {why} (for example item {self.examples[why]})")


async def export(context: Context, name: str, target: Target, portions_of: Portions) -> int:
    """Writes the portions to the target and prints the number of items (not for stdout). Returns the exit code.

    CommandError if it was interrupted, or if the other system cannot have some of the items; then nothing is written.
    """
    opened = context.queue(name) if target.removes else context.read_queue(name)
    progress = Progress(is_shown=sys.stderr.isatty() and target.to != "-")
    async with stopping() as stop, opened as queue:
        if target.is_dry or (target.layout is not None and target.layout.kind != "list"):
            async with aclosing(portions_of(queue, UNLIMITED, stop, False)) as portions:
                check = await _checked(target, portions, progress)
            check.say()
            if stop.is_set():
                raise CommandError("interrupted; nothing was exported", INTERRUPTED)
            if target.is_dry:
                return _report_dry_run(context, name, check)
            if check.problems:
                raise CommandError(
                    f"nothing was exported: {count(check.problems.total())} cannot be written to {target.to}",
                    REFUSED,
                )
        return await _write(context, name, target, portions_of, queue, stop, progress)


async def _checked(target: Target, portions: AsyncGenerator[list[Located]], progress: Progress) -> _Check:
    check = _Check()
    try:
        async for portion in portions:
            check.total += len(portion)
            if target.layout is not None:
                for one in portion:
                    check.add(target.layout, one, target.jobs)
            progress.show(f"{check.total:,} checked")
    finally:
        progress.clear()
    return check


def _report_dry_run(context: Context, name: str, check: _Check) -> int:
    exported = check.total - check.problems.total()
    document = {**_document(name, exported), "dry_run": True, "refused": dict(check.problems)}
    context.answers.give(document, f"{name}: {count(exported)} would be exported")
    return NOT_DONE if check.problems else 0


def _document(name: str, exported: int) -> dict[str, object]:
    return {
        "queue": name,
        "dry_run": False,
        "exported": exported,
        "known": 0,
        "removed": False,
        "refused": {},
    }


async def _write(
    context: Context,
    name: str,
    target: Target,
    portions_of: Portions,
    queue: ReadableQueue,
    stop: asyncio.Event,
    progress: Progress,
) -> int:
    total = known = 0
    async with _opened(context, name, target, queue) as store:
        try:
            async with aclosing(portions_of(queue, Pace(target.rate), stop, target.removes)) as portions:
                async for portion in portions:
                    known += await store(portion)
                    total += len(portion)
                    progress.show(f"{total:,} exported")
        finally:
            progress.clear()
    if target.to != "-":
        document = {**_document(name, total), "known": known, "removed": target.removes}
        removed = " and removed" if target.removes else ""
        there = f", of which the target had {known:,} already" if known else ""
        context.answers.give(document, f"{name}: {count(total)} exported{removed}{there}")
    if stop.is_set():
        raise CommandError(f"interrupted after {count(total)}", INTERRUPTED)
    return 0


@asynccontextmanager
async def _opened(context: Context, name: str, target: Target, queue: ReadableQueue) -> AsyncGenerator[Store]:
    """Opens the target; yields the function that writes items to it."""
    if (layout := target.layout) is not None:
        chosen = settings_for_other(target.server) if target.server else (await context.chosen(name)).settings
        now = (await queue.snapshot()).now
        async with TargetServer(chosen, layout) as server:

            async def add(items: list[Located]) -> int:
                return await server.add([_entry(layout, one, target, now) for one in items])

            yield add
        return
    with _file(target.to) as file:
        writer = ItemWriter(file, target.form, target.end)

        async def write(items: list[Located]) -> int:
            writer.write(items)
            if target.removes:
                writer.store()
            return 0

        yield write


def _entry(layout: Layout, one: Located, target: Target, now: float) -> NewEntry:
    try:
        return new_entry(layout, one, target.jobs, now)
    except Unwritable as why:  # it was enqueued after the check
        raise CommandError(
            f"item {one.item.id} and those after it are still in the queue: {why}", REFUSED
        ) from why


@contextmanager
def _file(to: str) -> Generator[BinaryIO]:
    if to == "-":
        yield sys.stdout.buffer
        return
    try:
        with new_file(Path(to)) as file:
            yield file
    except FileExistsError:
        raise CommandError(f"{to} exists; name a new file", USAGE) from None
    except OSError as error:
        if error.filename is not None:  # it could not be opened
            raise CommandError(
                f"{to} cannot be written ({error.strerror}); name another file", USAGE
            ) from error
        raise CommandError(
            f"{to} cannot be written ({error.strerror}); the items that it lacks are still in the queue"
        ) from error
