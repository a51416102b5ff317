"""`claimq enqueue`: new items from arguments, lines or a file."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import BinaryIO

import click

from claimq.duration import parse_duration
from claimq.model import Enqueued, NewItem
from claimq_cli import json_shapes
from claimq_cli.answers import count
from claimq_cli.context import Context, with_context
from claimq_cli.failures import USAGE, CommandError

_READ_BYTES = 256 * 1024


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


@click.command()
@click.argument("name")
@click.argument("items", nargs=-1)
@click.option(
    "--lines", metavar="FILE", help="Each line of FILE is an item; '-' for stdin. Empty lines are left out."
)
@click.option(
    "-0", "--null", is_flag=True, help="With --lines: items end with a NUL byte instead of a newline."
)
@click.option("--file", metavar="FILE", help="The whole of FILE is one item; '-' for stdin.")
@click.option(
    "--client", metavar="CLIENT", help="The client whose items these are; claims go round-robin over clients."
)
@click.option(
    "--delay", type=Duration(), metavar="DURATION", help="Not to be claimed before so long from now: 30s, 5m."
)
@click.option(
    "--at", type=float, metavar="INSTANT", help="Not to be claimed before this instant, in Unix seconds."
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
    file: str | None,
    client: str | None,
    delay: float | None,
    at: float | None,
    item_id: str | None,
) -> None:
    """Put items at the back of the queue NAME.

    Each ITEM is one payload, as it is. With --lines each line is one, sent as it comes; with --file the whole file is.
    """
    if sum((bool(items), lines is not None, file is not None)) != 1:
        raise CommandError("give items as arguments, or --lines FILE, or --file FILE: one of them", USAGE)
    if item_id is not None and (lines is not None or len(items) > 1):
        raise CommandError("--id is for one item; leave it out, or enqueue the items one by one", USAGE)
    if delay is not None and at is not None:
        raise CommandError("--delay and --at exclude each other; give one of them", USAGE)
    done = Enqueued((), 0)
    async with context.queue(name) as queue, _payloads(items, lines, file, null=null) as portions:
        for portion in portions:
            new = [NewItem(one, id=item_id, client=client, delay=delay, at=at) for one in portion]
            done = _joined(done, await queue.enqueue_many(new))
    _tell(context, name, done)


def _tell(context: Context, name: str, done: Enqueued) -> None:
    known = f", {count(len(done.duplicates))} known already" if done.duplicates else ""
    new = len(done.ids) - len(done.duplicates)
    context.answers.give(
        json_shapes.enqueued(name, done), f"{name}: {count(new)} enqueued{known}, {done.length} in main"
    )


def _joined(one: Enqueued, two: Enqueued) -> Enqueued:
    return Enqueued(one.ids + two.ids, two.length, one.duplicates + two.duplicates)


@asynccontextmanager
async def _payloads(
    items: tuple[str, ...], lines: str | None, file: str | None, *, null: bool
) -> AsyncGenerator[Iterator[list[bytes]]]:
    """The payloads in portions, each as soon as it is there."""
    if items:
        yield iter([[os.fsencode(one) for one in items]])
        return
    source = lines if lines is not None else file or ""
    with _opened(source) as stream:
        yield _split(stream, b"\0" if null else b"\n") if lines is not None else iter([[stream.read()]])


def _opened(source: str) -> BinaryIO:
    if source == "-":
        return os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    try:
        return Path(source).open("rb")
    except OSError as error:
        raise CommandError(
            f"{source} cannot be read ({error.strerror}); name another file, or - for stdin", USAGE
        ) from error


def _split(stream: BinaryIO, end: bytes) -> Iterator[list[bytes]]:
    """Whole lines as they arrive, so that a slow producer's items do not wait for a full buffer."""
    rest = b""
    while got := os.read(stream.fileno(), _READ_BYTES):
        *whole, rest = (rest + got).split(end)
        if portion := _lines(whole, end):
            yield portion
    if portion := _lines([rest], end):
        yield portion


def _lines(whole: list[bytes], end: bytes) -> list[bytes]:
    trimmed = (line.removesuffix(b"\r") for line in whole) if end == b"\n" else whole
    return [line for line in trimmed if line]
