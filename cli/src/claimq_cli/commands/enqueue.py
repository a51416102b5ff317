"""`claimq enqueue`: new items from arguments, lines or a file."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import datetime

import click

from claimq_cli.commands.bulk_load import Loaded, Wanted, load, stopping
from claimq_cli.commands.context import Context, with_context
from claimq_cli.commands.input_source import ByteSource
from claimq_cli.errors import INTERRUPTED, USAGE, CommandError
from claimq_cli.output import documents
from claimq_cli.output.answers import count
from claimq_spec.duration import parse_duration


class Duration(click.ParamType[float]):
    """``30s``, ``5m``; to seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds, or a usage error that says what to write."""
        if isinstance(value, float):
            return value
        try:
            return parse_duration(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Instant(click.ParamType[float]):
    """ISO 8601 (without an offset: in the local time zone) or Unix seconds; to Unix seconds."""

    name = "instant"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Unix seconds, or a usage error that says what to write."""
        if isinstance(value, float):
            return value
        try:
            return float(str(value))
        except ValueError:
            pass
        try:
            return datetime.fromisoformat(str(value)).timestamp()
        except (ValueError, OverflowError, OSError):
            self.fail(
                f'"{value}" is no instant; write ISO 8601 (2030-01-31T09:00:00Z; without an offset in the local time '
                "zone) or Unix seconds",
                param,
                ctx,
            )


@click.command()
@click.argument("name")
@click.argument("items", nargs=-1)
@click.option(
    "--lines", metavar="FILE", help="Each line of FILE is an item; '-' for stdin. Empty lines are left out."
)
@click.option(
    "-0", "--null", is_flag=True, help="With --lines: items end with a NUL byte instead of a newline."
)
@click.option(
    "--from-line", type=click.IntRange(1), default=1, metavar="N", help="With --lines: go on with line N."
)
@click.option(
    "--id-prefix",
    metavar="PREFIX",
    help="With --lines: the id of each item is PREFIX and the number of its line, so a repeat is harmless.",
)
@click.option("--file", metavar="FILE", help="The whole of FILE is one item; '-' for stdin.")
@click.option(
    "--client", metavar="CLIENT", help="The client whose items these are; claims go round-robin over clients."
)
@click.option(
    "--delay", type=Duration(), metavar="DURATION", help="Not to be claimed before so long from now: 30s, 5m."
)
@click.option(
    "--at",
    type=Instant(),
    metavar="INSTANT",
    help="Not to be claimed before this instant: 2030-01-31T09:00:00Z, or Unix seconds.",
)
@click.option(
    "--id", "item_id", metavar="ID", help="An id of your own; the same id is not queued twice. For one item."
)
@with_context
async def enqueue(
    context: Context,
    name: str,
    items: tuple[str, ...],
    lines: str | None,
    null: bool,
    from_line: int,
    id_prefix: str | None,
    file: str | None,
    client: str | None,
    delay: float | None,
    at: float | None,
    item_id: str | None,
) -> None:
    """Put items at the back of the queue NAME; the first ones make it.

    Each ITEM is one payload, as it is. With --lines each line is one, sent as it comes; with --file the whole file is.
    """
    if sum((bool(items), lines is not None, file is not None)) != 1:
        raise CommandError("give items as arguments, or --lines FILE, or --file FILE: one of them", USAGE)
    if item_id is not None and (lines is not None or len(items) > 1):
        raise CommandError("--id is for one item; with --lines there is --id-prefix", USAGE)
    if lines is None and (null or from_line != 1 or id_prefix is not None):
        raise CommandError("--null, --from-line and --id-prefix go with --lines", USAGE)
    if delay is not None and at is not None:
        raise CommandError("--delay and --at exclude each other; give one of them", USAGE)
    wanted = Wanted(client, delay, at, id_prefix, from_line)
    if lines is not None:
        done, said = await _lines(context, name, lines, b"\0" if null else b"\n", wanted)
        document = {**done.document(name), "created": bool(said)}
        context.answers.give(document, _text(name, done, said))
        return
    payloads = [os.fsencode(one) for one in items] if file is None else [await _file(file)]
    new = [replace(wanted.item(0, one), id=item_id) for one in payloads]
    async with context.filled_queue(name) as (queue, said):
        enqueued = await queue.enqueue_many(new)
    loaded = Loaded()
    loaded.add(enqueued)
    document = {**documents.enqueued(name, enqueued), "created": bool(said)}
    context.answers.give(document, _text(name, loaded, said))


async def _lines(context: Context, name: str, source: str, end: bytes, wanted: Wanted) -> tuple[Loaded, str]:
    with ByteSource(source) as opened:
        async with stopping() as stop, context.filled_queue(name) as (queue, said):
            return await load(queue, opened, end, wanted, stop), said


async def _file(source: str) -> bytes:
    with ByteSource(source) as opened:
        async with stopping() as stop:
            payload = await opened.read_all(stop)
    if payload is None:
        raise CommandError("interrupted - nothing is enqueued", INTERRUPTED)
    return payload


def _text(name: str, done: Loaded, said: str) -> str:
    known = f", {count(done.known)} known already" if done.known else ""
    return f"{name}: {count(done.enqueued)} enqueued{known}, {done.length:,} in main" + (
        f" ({said})" if said else ""
    )
