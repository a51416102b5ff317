"""`claimq import`: moves waiting work of another queue system, or items of a file, into a queue."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import click

from claimq.codec import check_name
from claimq.item_options import ItemOptions
from claimq.model import NewItem
from claimq.waiting.texts import instant_text
from claimq_admin.errors import INTERRUPTED, NOT_DONE, USAGE, CommandError
from claimq_admin.rate_limit import Pace
from claimq_admin.server_choice import settings_for_other
from claimq_admin.stop_signals import stopping
from claimq_admin.text import count, known_text
from claimq_cli.commands.moving.bulk_load import Wanted
from claimq_cli.commands.moving.import_files import ItemFile, content_prefix
from claimq_cli.commands.moving.import_source import FORMS, form_of, layout_of, no_queue
from claimq_cli.commands.moving.input_source import InputSource
from claimq_cli.commands.options.context import Context, with_context
from claimq_cli.commands.options.option_types import rate_option, server_url
from claimq_cli.commands.options.queue_argument import queue_argument
from claimq_cli.commands.options.queue_names import NewQueue
from claimq_cli.migration.layout import Layout
from claimq_cli.migration.mover import Moved, Mover
from claimq_cli.migration.source_server import SourceServer
from claimq_cli.output.progress import Progress
from claimq_cli.output.terminal import say_error


@dataclass(frozen=True, slots=True)
class Options:
    """The options of an import from another queue system."""

    source: str | None
    copy: bool
    dry_run: bool
    limit: int | None
    client: str | None
    pending: str | None
    new_ids: bool


@click.command("import")
@queue_argument
@click.option(
    "--from",
    "origin",
    metavar="SOURCE",
    required=True,
    help="list:KEY, fifo:NAME, sidekiq:NAME, rq:NAME, bullmq:NAME, a file .jsonl or .csv, or '-' for stdin.",
)
@server_url(
    "--source",
    instead="set CLAIMQ_SOURCE_URL",
    envvar="CLAIMQ_SOURCE_URL",
    help="Server of the other system (default: $CLAIMQ_SOURCE_URL, or the queue's server).",
)
@click.option("--prefix", default="", help="Prefix of BullMQ (default: bull), or namespace of Sidekiq.")
@click.option(
    "--next-end",
    type=click.Choice(["left", "right"]),
    help="With list:KEY: the end from which consumers take (default: right, as with LPUSH and RPOP).",
)
@click.option("--copy", is_flag=True, help="Leave the entries in the source.")
@click.option(
    "--dry-run", is_flag=True, help="Change nothing; show what would be enqueued, and what cannot be."
)
@rate_option
@click.option(
    "--limit", type=click.IntRange(1), metavar="N", help="Stop after N entries of the other system."
)
@click.option("--client", metavar="CLIENT", help="Client of items that name no client.")
@click.option("--format", "form", type=click.Choice(FORMS), help="Format of a file (default: by its name).")
@click.option(
    "--from-line", type=click.IntRange(1), default=1, metavar="N", help="With a file: start at line N."
)
@click.option(
    "--id-prefix",
    metavar="PREFIX",
    help="With a file: items without an id get PREFIX and their line (default: a digest of the file).",
)
@click.option(
    "--pending",
    type=click.Choice(["enqueue", "return", "discard"]),
    help="What to do with the entries of an interrupted import whose ids the queue no longer remembers.",
)
@click.option(
    "--new-ids",
    is_flag=True,
    help="Give new ids to entries whose ids an item cannot have, or that the queue knows already.",
)
@with_context
async def import_items(
    context: Context,
    name: str,
    origin: str,
    source: str | None,
    prefix: str,
    next_end: str | None,
    copy: bool,
    dry_run: bool,
    rate: float | None,
    limit: int | None,
    client: str | None,
    form: str | None,
    from_line: int,
    id_prefix: str | None,
    pending: str | None,
    new_ids: bool,
) -> int | None:
    """Move work of another system or a file into the queue NAME.

    \b
    claimq import mails --from sidekiq:mails --source redis://old:6379/0 --dry-run
    claimq import mails --from sidekiq:mails --source redis://old:6379/0
    claimq import mails --from items.jsonl

    First stop the producers and workers of the other system. An import that was stopped, also by SIGKILL, continues
    when the same command runs again.

    With -o json: `{"queue", "dry_run", "enqueued", "duplicate_count", "delayed", "pending", "discarded",
    "returned", "by_place", "samples", "kept", "not_touched", "created"}`; from a file as `claimq enqueue
    --lines`, with --dry-run `{"queue", "dry_run", "enqueued", "delayed", "samples", "problem_count",
    "problems"}`.
    """
    if client is not None:
        check_name("client", client)
    layout = layout_of(origin, prefix=prefix, next_end=next_end or "")
    if layout is not None:
        if form is not None or from_line != 1 or id_prefix is not None:
            raise CommandError("--format, --from-line and --id-prefix are for files", USAGE)
        options = Options(source, copy, dry_run, limit, client, pending, new_ids)
        return await _from_server(context, name, layout, options, Pace(rate))
    form = form_of(origin, form)
    if copy or pending or limit or new_ids:
        raise CommandError(
            "--copy, --pending, --limit and --new-ids are for other queue systems, not files", USAGE
        )
    client_option: ItemOptions = {} if client is None else {"client": client}
    load = Wanted(client_option, id_prefix=id_prefix or content_prefix(origin), from_line=from_line)
    with InputSource(origin) as opened:
        file = ItemFile(opened, form, load)
        return await (_check_file(context, name, file) if dry_run else _from_file(context, name, file, rate))


async def _from_file(context: Context, name: str, file: ItemFile, rate: float | None) -> int:
    async with stopping() as stop, context.filled_admin(name) as (admin, new_queue):
        loaded = await file.load(admin.queue, stop, Pace(rate))
    document = {**loaded.document(name), "created": bool(new_queue and loaded.enqueued)}
    new = new_queue.text(loaded.enqueued) if new_queue else ""
    context.answers.give(document, f"{name}: {loaded.summary}{new}")
    return NOT_DONE if loaded.refused_count else 0


async def _check_file(context: Context, name: str, file: ItemFile) -> int:
    async with stopping() as stop, context.filled_admin(name, is_dry=True) as (admin, _):
        tally = await file.tally(admin.queue, stop)
    if stop.is_set():
        raise CommandError("interrupted", INTERRUPTED)
    problems = list(tally.problems or ())
    document = {
        "queue": name,
        "dry_run": True,
        "enqueued": tally.count,
        "duplicate_count": tally.known,
        "delayed": tally.delayed,
        "samples": [_sample(item) for item in tally.samples],
        "problem_count": tally.problem_count,
        "problems": problems,
    }
    delayed = f"{tally.delayed:,} of them delayed{known_text(tally.known)}"
    lines = [f"{name}: {count(tally.count)} would be enqueued, {delayed}"]
    lines += [_sample_text(item) for item in tally.samples]
    lines += [f"{count(tally.problem_count, 'line')} cannot be imported:"] if problems else []
    context.answers.give(document, *lines, *(f"  {problem}" for problem in problems))
    return NOT_DONE if problems else 0


async def _from_server(context: Context, name: str, layout: Layout, options: Options, pace: Pace) -> int:
    chosen = await context.chosen(name)
    settings = chosen.settings if options.source is None else settings_for_other(options.source)
    progress = Progress(is_shown=sys.stderr.isatty())
    async with (
        stopping() as stop,
        context.filled_admin(name, is_dry=options.dry_run) as (admin, new_queue),
        SourceServer(settings, layout) as source,
    ):
        mover = Mover(
            admin.queue, source, layout, options.client, pace, stop, limit=options.limit, new_ids=options.new_ids,
            is_dry=options.dry_run,
        )  # fmt: skip
        mover.show = lambda moved: progress.show(f"{moved.enqueued:,} enqueued")
        try:
            if options.copy or options.dry_run:
                moved = await mover.copy(is_copy=options.copy)
            else:
                moved = await mover.move(options.pending)
        finally:
            progress.clear()
        left_alone = await source.left_alone()
        is_empty = moved.is_nothing and all(place.is_shared for place in left_alone) and not stop.is_set()
        if is_empty and not await source.is_known():
            raise CommandError(no_queue(layout, await source.queues()))
    _report(
        context,
        name,
        moved,
        {place.label: length for place, length in left_alone.items()},
        options,
        new_queue,
    )
    if stop.is_set():
        raise CommandError("interrupted; run the same command again to continue", INTERRUPTED)
    return NOT_DONE if moved.kept else 0


def _report(
    context: Context,
    name: str,
    moved: Moved,
    left_alone: dict[str, int],
    options: Options,
    new_queue: NewQueue | None,
) -> None:
    document = {
        "queue": name,
        "dry_run": options.dry_run,
        "pending": moved.pending,
        "discarded": moved.discarded,
        "returned": moved.returned,
        "enqueued": moved.enqueued,
        "duplicate_count": moved.known,
        "delayed": moved.delayed,
        "by_place": dict(moved.by_place),
        "samples": [_sample(item) for item in moved.samples] if options.dry_run else [],
        "kept": dict(moved.kept),
        "not_touched": left_alone,
        "created": bool(new_queue and moved.enqueued) and not options.dry_run,
    }
    verb = "would be enqueued" if options.dry_run else "enqueued"
    parts = ", ".join(f"{number:,} {label}" for label, number in moved.by_place.items())
    new = new_queue.text(moved.enqueued) if new_queue and not options.dry_run else ""
    enqueued = f"{count(moved.enqueued)} {verb}{known_text(moved.known)}"
    lines = [f"{name}: {enqueued}" + (f": {parts}" if parts else "") + new]
    if options.dry_run:
        lines += [_sample_text(item) for item in moved.samples]
    lines += _of_earlier_import(moved)
    lines += [f"not touched: {number:,} {label}" for label, number in left_alone.items()]
    context.answers.give(document, *lines)
    for why, number in moved.kept.items():
        say_error(f"{number:,} not imported: {why} (for example {moved.examples[why]})")


def _of_earlier_import(moved: Moved) -> list[str]:
    took = "that an import took before it stopped"
    texts = {
        f"also {moved.pending:,} {took}; the next import enqueues them": moved.pending,
        f"discarded: {moved.discarded:,} {took}": moved.discarded,
        f"back in the source: {moved.returned:,} {took}": moved.returned,
    }
    return [text for text, number in texts.items() if number]


def _sample(item: NewItem) -> dict[str, object]:
    return {"id": item.id, "client": item.client, "at": item.at, "payload": _start_of(item)}


def _sample_text(item: NewItem) -> str:
    due = f", due {instant_text(item.at)}" if isinstance(item.at, float) else ""
    return f"  {item.id or 'new id'}{due}: {_start_of(item)}"


def _start_of(item: NewItem) -> str:
    raw = item.payload if isinstance(item.payload, bytes) else str(item.payload).encode()
    return raw[:100].decode("utf-8", "backslashreplace")
