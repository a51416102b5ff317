"""`claimq enqueue`: adds items from arguments, lines or a file."""

from __future__ import annotations

import os
from dataclasses import replace

import click

import claimq
from claimq.arguments import instant, optional_seconds
from claimq.item_options import ItemOptions
from claimq.waiting.texts import instant_text
from claimq_admin.errors import INTERRUPTED, NOT_DONE, USAGE, CommandError
from claimq_admin.reads import documents
from claimq_admin.stop_signals import stopping
from claimq_admin.text import count
from claimq_cli.commands.moving.bulk_load import Loaded, Wanted, load
from claimq_cli.commands.moving.input_source import InputSource
from claimq_cli.commands.moving.line_options import LineOptions, line_options
from claimq_cli.commands.options.context import Context, with_context
from claimq_cli.commands.options.item_options import item_options
from claimq_cli.commands.options.queue_argument import queue_argument
from claimq_cli.commands.options.queue_names import NewQueue
from claimq_cli.output.terminal import say_error
from claimq_process.duration import format_duration


@click.command()
@queue_argument
@click.argument("items", nargs=-1)
@line_options
@click.option("--file", metavar="FILE", help="Enqueue the content of FILE as one item; '-' is stdin.")
@click.option(
    "--id",
    "item_id",
    metavar="ID",
    help="Id of the item (one item only). An id that is known already is not enqueued again.",
)
@item_options
@with_context
async def enqueue(
    context: Context,
    name: str,
    items: tuple[str, ...],
    lines: LineOptions | None,
    file: str | None,
    item_id: str | None,
    options: ItemOptions,
) -> int:
    """Add items to the queue NAME. The first item creates the queue.

    Each ITEM is one payload. With --lines each line is one, with --file the whole file.

    \b
    claimq enqueue thumbnails cat.png dog.png --client acme
    find . -name '*.png' | claimq enqueue thumbnails --lines -
    claimq enqueue thumbnails --file photo.json --id order-4711 --delay 30s

    With -o json: `{"queue", "ids", "length", "duplicates", "created", "due_at"}`: `length` of main, ids that
    were known already, whether this created the queue. With --lines without `due_at`, with at most 1,000
    `ids`, `duplicates` and `refused`, and `"enqueued", "duplicate_count", "last_line", "refused": [{"line",
    "reason"}], "refused_count", "cut_count"` (lines that were empty or lost a carriage return).
    """
    _check_source(items, lines, file, item_id)
    if "delay" in options and "at" in options:
        raise CommandError("--delay and --at exclude each other; give only one of them", USAGE)
    template = Wanted(options)
    if lines is not None:
        return await _enqueue_lines(
            context, name, lines, replace(template, id_prefix=lines.id_prefix, from_line=lines.from_line)
        )
    payloads = [os.fsencode(text) for text in items] if file is None else [await _file(file)]
    new = [replace(template.item(0, payload), id=item_id) for payload in payloads]
    async with context.filled_admin(name) as (admin, new_queue):
        due_at, delayed = await _delay(admin.queue, template)
        enqueued = await admin.queue.enqueue_many(new)
    loaded = Loaded()
    loaded.add(enqueued)
    document = {**documents.enqueued(name, enqueued), "created": bool(new_queue), "due_at": due_at}
    context.answers.give(document, _text(name, loaded, delayed, new_queue))
    return 0


def _check_source(
    items: tuple[str, ...], lines: LineOptions | None, file: str | None, item_id: str | None
) -> None:
    """CommandError for none or several sources of items, and for one id for several items."""
    if sum((bool(items), lines is not None, file is not None)) != 1:
        raise CommandError(
            "give items as arguments, or --lines FILE, or --file FILE: exactly one of them", USAGE
        )
    if item_id is not None and (lines is not None or len(items) > 1):
        raise CommandError("--id is for one item; with --lines use --id-prefix", USAGE)


async def _enqueue_lines(context: Context, name: str, lines: LineOptions, template: Wanted) -> int:
    with InputSource(lines.source) as opened:
        async with stopping() as stop, context.filled_admin(name) as (admin, new_queue):
            done = await load(admin.queue, opened, lines.end, template, stop)
    document = {**done.document(name), "created": bool(new_queue and done.enqueued)}
    at, delay = _due(template.options)
    delayed = "" if at is None else f"delayed until {instant_text(at)}"
    if delay is not None:
        delayed = f"each delayed by {format_duration(delay)}"
    context.answers.give(document, _text(name, done, delayed, new_queue))
    if done.cut_count:
        say_error(
            f"{count(done.cut_count, 'line')} of the input: empty and skipped, or without the carriage return at the "
            "end; --null keeps all bytes"
        )
    return NOT_DONE if done.refused_count else 0


async def _delay(queue: claimq.ReliableQueue, template: Wanted) -> tuple[float | None, str]:
    """When delayed items are due by the server's clock, and a text with it. None and an empty text without a delay."""
    at, delay = _due(template.options)
    if delay is None and at is None:
        return None, ""
    now = (await queue.snapshot()).now
    due_at = at if at is not None else now + (delay or 0.0)
    return due_at, f"delayed until {instant_text(due_at)}" if due_at > now else "due now"


def _due(options: ItemOptions) -> tuple[float | None, float | None]:
    """The instant and the delay of delayed items, in seconds."""
    at, delay = options.get("at"), options.get("delay")
    return None if at is None else instant("at", at), optional_seconds("delay", delay)


async def _file(source: str) -> bytes:
    with InputSource(source) as opened:
        async with stopping() as stop:
            payload = await opened.read_all(stop)
    if payload is None:
        raise CommandError("interrupted; nothing was enqueued", INTERRUPTED)
    return payload


def _text(name: str, done: Loaded, delayed: str, new_queue: NewQueue | None) -> str:
    place = delayed or f"{done.length:,} in main"
    new = new_queue.text(done.enqueued) if new_queue else ""
    hint = " (the queue remembers ids for its id_window)" if done.known else ""
    return f"{name}: {done.summary}, {place}{new}{hint}"
