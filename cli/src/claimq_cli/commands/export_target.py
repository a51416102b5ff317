"""Where exports write items: a file, stdout or a list, with the options that choose it."""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import click

from claimq.model import Located
from claimq_cli.commands.context import Context
from claimq_cli.commands.option_types import rate_option, with_options
from claimq_cli.errors import INTERRUPTED, USAGE, CommandError
from claimq_cli.migration.item_writer import FORMS, ItemWriter, new_file
from claimq_cli.migration.other_server import OtherServer
from claimq_cli.output.answers import count
from claimq_cli.output.progress import Progress
from claimq_cli.queue_reads import ReadableQueue
from claimq_cli.rate_limit import Pace
from claimq_cli.server_choice import settings_for_other
from claimq_cli.stop_signals import stopping

Store = Callable[[list[Located]], Awaitable[None]]
"""Writes items; when it returns, they are stored."""
Portions = Callable[[ReadableQueue, Pace, asyncio.Event], AsyncGenerator[list[Located]]]
"""Reads the items to export in portions until the event is set."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where items go, and how: ``to`` is a file, '-' for stdout, or ``list:KEY``. ``removes``: the queue loses what the
    target has stored. ``rate``: items per second, or None for no limit."""

    to: str
    server: str | None
    form: str
    end: bytes
    next_end: str
    removes: bool
    rate: float | None

    @property
    def key(self) -> str | None:
        """The key of a list; None for a file."""
        kind, _, key = self.to.partition(":")
        return key if kind == "list" and key else None


_OPTIONS = (
    click.option(
        "--to",
        default="-",
        show_default=True,
        metavar="TARGET",
        help="A new file, '-' for stdout, or list:KEY.",
    ),
    click.option(
        "--format",
        "form",
        type=click.Choice(FORMS),
        default="jsonl",
        show_default=True,
        help="Format of a file.",
    ),
    click.option("-0", "--null", is_flag=True, help="With --format raw: NUL bytes instead of newlines."),
    click.option(
        "--target",
        "server",
        envvar="CLAIMQ_TARGET_URL",
        metavar="URL",
        help="Server of list:KEY (default: $CLAIMQ_TARGET_URL, or the queue's server).",
    ),
    click.option(
        "--next-end",
        type=click.Choice(["left", "right"]),
        default="right",
        show_default=True,
        help="With list:KEY: the end from which its consumers take.",
    ),
    click.option(
        "--remove", is_flag=True, help="Remove the items from main or failed once the target has stored them."
    ),
    rate_option,
)


def target_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a :class:`Target`, which the command gets as ``target``."""

    @functools.wraps(command)
    def choose(
        to: str,
        form: str,
        null: bool,
        server: str | None,
        next_end: str,
        remove: bool,
        rate: float | None,
        **others: Any,
    ) -> Any:
        _check(to, form, null=null, removes=remove)
        end = b"\0" if null else b"\n"
        return command(target=Target(to, server, form, end, next_end, remove, rate), **others)

    return with_options(choose, _OPTIONS)


def _check(to: str, form: str, *, null: bool, removes: bool) -> None:
    if to in ("", "list:"):
        raise CommandError("--to needs the name of a new file, '-' for stdout, or list:KEY", USAGE)
    if null and form != "raw":
        raise CommandError("--null needs --format raw", USAGE)
    if to == "-" and form != "jsonl" and sys.stdout.isatty():
        raise CommandError(
            f"--format {form} writes payloads as they are, which a terminal may take for commands; "
            "redirect stdout, or use --to FILE",
            USAGE,
        )
    if to == "-" and removes:
        raise CommandError("--remove needs --to FILE or list:KEY: what reads stdout may lose items", USAGE)


async def export(context: Context, name: str, target: Target, portions_of: Portions) -> None:
    """Writes the portions to the target and prints the number of items (not for stdout).

    CommandError if it was interrupted.
    """
    progress = Progress(is_shown=sys.stderr.isatty() and target.to != "-")
    total = 0
    opened = context.queue(name) if target.removes else context.read_queue(name)
    async with stopping() as stop, opened as queue, _opened(context, name, target) as store:
        try:
            async with aclosing(portions_of(queue, Pace(target.rate), stop)) as portions:
                async for portion in portions:
                    await store(portion)
                    total += len(portion)
                    progress.show(f"{total:,} exported")
        finally:
            progress.clear()
    if target.to != "-":
        document = {"queue": name, "exported": total, "removed": target.removes}
        removed = " and removed" if target.removes else ""
        context.answers.give(document, f"{name}: {count(total)} exported{removed}")
    if stop.is_set():
        raise CommandError(f"interrupted after {count(total)}", INTERRUPTED)


@asynccontextmanager
async def _opened(context: Context, name: str, target: Target) -> AsyncGenerator[Store]:
    """Opens the target; yields the function that writes items to it."""
    if (key := target.key) is not None:
        chosen = settings_for_other(target.server) if target.server else (await context.chosen(name)).settings
        async with OtherServer(chosen, "the server of the target") as server:

            async def push(items: list[Located]) -> None:
                await server.push(key, next_end=target.next_end, payloads=[one.item.payload for one in items])

            yield push
        return
    with _file(target.to) as file:
        writer = ItemWriter(file, target.form, target.end)

        async def write(items: list[Located]) -> None:
            writer.write(items)
            if target.removes:
                writer.store()

        yield write


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
