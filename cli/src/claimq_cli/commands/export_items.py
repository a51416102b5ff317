"""`claimq export`: writes the items of a queue to a file or a list, and with --remove takes them out of the queue."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import click

import claimq
from claimq.model import Located, State
from claimq_cli.commands.context import Context, with_context
from claimq_cli.commands.option_types import rate_option
from claimq_cli.commands.queue_argument import queue_argument
from claimq_cli.errors import INTERRUPTED, USAGE, CommandError
from claimq_cli.migration.export_source import read_items, take_failed, take_waiting
from claimq_cli.migration.item_writer import FORMS, ItemWriter, new_file
from claimq_cli.migration.other_server import OtherServer
from claimq_cli.output.answers import count
from claimq_cli.output.progress import Progress
from claimq_cli.rate_limit import Pace
from claimq_cli.server_choice import settings_for_other
from claimq_cli.stop_signals import stopping

Store = Callable[[list[Located]], Awaitable[None]]
"""Writes items; when it returns, they are stored."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where items go: ``to`` is a file, '-' for stdout, or ``list:KEY``."""

    to: str
    server: str | None
    form: str
    end: bytes
    next_end: str
    is_durable: bool

    @property
    def key(self) -> str | None:
        """The key of a list; None for a file."""
        kind, _, key = self.to.partition(":")
        return key if kind == "list" and key else None


@click.command("export")
@queue_argument
@click.option(
    "--to", default="-", show_default=True, metavar="TARGET", help="A new file, '-' for stdout, or list:KEY."
)
@click.option(
    "--state",
    "states",
    type=click.Choice([state.value for state in State]),
    multiple=True,
    default=["main"],
    show_default=True,
    help="State of the items; may be given several times.",
)
@click.option(
    "--format", "form", type=click.Choice(FORMS), default="jsonl", show_default=True, help="Format of a file."
)
@click.option("-0", "--null", is_flag=True, help="With --format raw: NUL bytes instead of newlines.")
@click.option(
    "--target",
    envvar="CLAIMQ_TARGET_URL",
    metavar="URL",
    help="Server of list:KEY (default: $CLAIMQ_TARGET_URL, or the queue's server).",
)
@click.option(
    "--next-end",
    type=click.Choice(["left", "right"]),
    default="right",
    show_default=True,
    help="With list:KEY: the end from which its consumers take.",
)
@click.option(
    "--remove", is_flag=True, help="Remove the items from main or failed once the target has stored them."
)
@rate_option
@with_context
async def export_items(
    context: Context,
    name: str,
    to: str,
    states: tuple[str, ...],
    form: str,
    null: bool,
    target: str | None,
    next_end: str,
    remove: bool,
    rate: float | None,
) -> None:
    """Write the items of the queue NAME to a file or a list.

    `claimq import` reads JSON lines and CSV.

    \b
    claimq export mails > mails.jsonl
    claimq export mails --state main --state delayed --format csv --to mails.csv
    claimq export mails --remove --to list:emails

    Without --remove the queue does not change. Pause it and stop its workers for a complete export.
    """
    wanted = Target(to, target, form, b"\0" if null else b"\n", next_end, remove)
    chosen = [State(state) for state in dict.fromkeys(states)]
    _check(wanted, chosen, null=null)
    progress = Progress(is_shown=sys.stderr.isatty() and to != "-")
    total = 0
    async with stopping() as stop, context.queue(name) as queue, _opened(context, name, wanted) as store:
        try:
            async with aclosing(_portions(queue, chosen, Pace(rate), stop, removes=remove)) as portions:
                async for portion in portions:
                    await store(portion)
                    total += len(portion)
                    progress.show(f"{total:,} exported")
        finally:
            progress.clear()
    if to != "-":
        document = {"queue": name, "exported": total, "removed": remove}
        context.answers.give(
            document, f"{name}: {count(total)} exported" + (" and removed" if remove else "")
        )
    if stop.is_set():
        raise CommandError(f"interrupted after {count(total)}", INTERRUPTED)


def _check(target: Target, states: list[State], *, null: bool) -> None:
    if null and target.form != "raw":
        raise CommandError("--null needs --format raw", USAGE)
    if target.to == "-" and target.form != "jsonl" and sys.stdout.isatty():
        raise CommandError(
            f"--format {target.form} writes payloads as they are, which a terminal may take for commands; "
            "redirect stdout, or use --to FILE",
            USAGE,
        )
    if not target.is_durable:
        return
    if target.to == "-":
        raise CommandError("--remove needs --to FILE or list:KEY: what reads stdout may lose items", USAGE)
    if not {State.MAIN, State.FAILED}.issuperset(states):
        raise CommandError(
            "--remove takes items in main and failed; delayed ones move to main when they are due", USAGE
        )


async def _portions(
    queue: claimq.ReliableQueue, states: list[State], pace: Pace, stop: asyncio.Event, *, removes: bool
) -> AsyncGenerator[list[Located]]:
    for state in states:
        if not removes:
            found = read_items(queue, state, pace, stop)
        elif state is State.MAIN:
            found = take_waiting(queue, pace, stop)
        else:
            found = take_failed(queue, pace, stop)
        async with aclosing(found):
            async for portion in found:
                yield portion


@asynccontextmanager
async def _opened(context: Context, name: str, target: Target) -> AsyncGenerator[Store]:
    """What writes items to the target; open inside the block."""
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
            if target.is_durable:
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
