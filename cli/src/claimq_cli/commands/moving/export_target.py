"""Writes the items of an export to a file or to stdout."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import BinaryIO

from claimq.model import Located
from claimq_admin.errors import INTERRUPTED, USAGE, CommandError
from claimq_admin.rate_limit import Pace
from claimq_admin.reads.queue_reads import ReadableQueue
from claimq_admin.stop_signals import stopping
from claimq_admin.text import count
from claimq_cli.commands.moving.export_options import Target
from claimq_cli.commands.options.context import Context
from claimq_cli.migration.item_writer import ItemWriter, new_file
from claimq_cli.output.progress import Progress

Portions = Callable[[ReadableQueue, Pace, asyncio.Event, bool], AsyncGenerator[list[Located]]]
"""Reads the items to export in portions until the event is set, and takes them out of the queue if the last argument is
true."""


async def export(context: Context, name: str, target: Target, portions_of: Portions) -> None:
    """Writes the portions to the target and prints the number of items (not for stdout).

    CommandError if it was interrupted, or if the file cannot be written.
    """
    opened = context.queue(name) if target.removes else context.read_queue(name)
    async with stopping() as stop, opened as queue:
        with _file(target.to) as file:
            portions = portions_of(queue, Pace(target.rate), stop, target.removes)
            total = await _write(ItemWriter(file, target.form, target.end), portions, target)
        if target.to != "-":
            removed = " and removed" if target.removes else ""
            document = {"queue": name, "exported": total, "removed": target.removes}
            context.answers.give(document, f"{name}: {count(total)} exported{removed}")
        if stop.is_set():
            raise CommandError(f"interrupted after {count(total)}", INTERRUPTED)


async def _write(writer: ItemWriter, portions: AsyncGenerator[list[Located]], target: Target) -> int:
    """Writes each portion, and stores it on the disk before it is removed. Returns the number of items."""
    progress, total = Progress(is_shown=sys.stderr.isatty() and target.to != "-"), 0
    try:
        async with aclosing(portions):
            async for portion in portions:
                writer.write(portion)
                if target.removes:
                    writer.store()
                total += len(portion)
                progress.show(f"{total:,} exported")
    finally:
        progress.clear()
    return total


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
