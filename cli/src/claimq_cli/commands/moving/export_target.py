"""Writes the items of an export to a file or to stdout."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing, contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO

import claimq
from claimq.model import Located
from claimq_admin.changes.item_actions import ActionRecord
from claimq_admin.errors import INTERRUPTED, USAGE, CommandError
from claimq_admin.rate_limit import Pace
from claimq_admin.stop_signals import stopping
from claimq_admin.text import count
from claimq_cli.commands.moving.export_options import Target
from claimq_cli.commands.options.context import Context
from claimq_cli.migration.item_writer import ItemWriter, new_file
from claimq_cli.output.progress import Progress

Portions = Callable[[claimq.ReliableQueue, Pace, asyncio.Event, bool], AsyncGenerator[list[Located]]]
"""Reads the items to export in portions until the event is set, and takes them out of the queue if the last argument is
true."""


async def export(context: Context, name: str, target: Target, what: str, portions_of: Portions) -> None:
    """Writes the portions to the target and prints the number of items (not for stdout). ``what``: the items, for the
    record of their removal.

    CommandError if it was interrupted, or if the file cannot be written.
    """
    total = 0
    progress = Progress(is_shown=sys.stderr.isatty() and target.to != "-")
    async with stopping() as stop, context.admin(name) as admin:
        removal = ActionRecord(admin, "export").selection(what, lambda: total)
        with _file(target.to) as file:
            writer = ItemWriter(file, target.form, target.end)
            portions = portions_of(admin.queue, Pace(target.rate), stop, target.removes)
            try:
                async with removal if target.removes else nullcontext(), aclosing(portions):
                    async for portion in portions:
                        writer.write(portion)
                        if target.removes:  # they leave the queue when the next ones are requested
                            writer.store()
                        total += len(portion)
                        progress.show(f"{total:,} exported")
            finally:
                progress.clear()
        if target.to != "-":
            removed = " and removed" if target.removes else ""
            document = {"queue": name, "exported": total, "removed": target.removes}
            context.answers.give(document, f"{name}: {count(total)} exported{removed}")
        if stop.is_set():
            raise CommandError(f"interrupted after {count(total)}", INTERRUPTED)


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
