"""`claimq item`: shows and changes single items in any state, and all items in main or delayed that pass filters."""

from __future__ import annotations

import click

from claimq.errors import SearchEnded
from claimq_admin.changes.item_actions import ItemChange
from claimq_admin.errors import NOT_DONE, USAGE, CommandError
from claimq_admin.reads import documents
from claimq_admin.reads.decisions import FOR_WORKERS, waits_text
from claimq_cli.commands.changing.failed_changes import change_items
from claimq_cli.commands.options.context import Context, with_context
from claimq_cli.commands.options.option_types import Duration
from claimq_cli.commands.options.queue_argument import QueueArgument, queue_argument
from claimq_cli.commands.reading.item_details import described
from claimq_cli.commands.reading.item_selection import Selection, item_selection
from claimq_control.decide.standstill import standstill


@click.group()
def item() -> None:
    """Show, cancel, remove, run, move or requeue items.

    Items that are named by their ids may be in any state: in main, delayed, in progress (busy) or failed. With --all
    and --state, all items in main or delayed that pass the filters are changed; for failed ones use `claimq failed`.
    """


@item.command("show")
@queue_argument
@click.argument("id")
@click.option("--all", "everywhere", is_flag=True, help="Search all items, however many there are.")
@with_context
async def show(context: Context, name: str, id: str, everywhere: bool) -> None:  # noqa: A002 - the name that click shows
    """Show where the item ID of queue NAME is, and why it waits.

    Searches all failed items, and the first 500 in each other state.

    \b
    claimq item show thumbnails order-4711
    claimq item show thumbnails order-4711 --all
    claimq item show thumbnails order-4711 -o json

    With -o json: the fields of LOCATED, `queue`, and `waits`: `{"reason", "text", "until", "ahead", "ahead_of_all"}`
    or null.
    """
    async with context.queue(name) as queue:
        drain = f"{context.command} drain {name}"
        try:
            where = await queue.where(id, everywhere=everywhere)
        except SearchEnded as error:
            stuck = standstill(await queue.snapshot(), drain)
            raise SearchEnded(f"{error}; in {name} there is {stuck}" if stuck else str(error)) from error
        waits_for_workers = where is not None and where.reason in FOR_WORKERS
        stuck = standstill(await queue.snapshot(), drain) if waits_for_workers else ""
    if where is None:
        raise CommandError(f"{name} has no item {id}: it is done, was removed, or never existed", NOT_DONE)
    decision = {"attention": stuck, **await context.decision(name)} if waits_for_workers else {}
    text = waits_text(where, decision)
    context.answers.give({"queue": name, **documents.where(where, text)}, *described(where, text))


@item.command("cancel")
@item_selection()
@click.option(
    "--error", default="cancelled by hand", show_default=True, help="The error to record with the item."
)
@with_context
async def cancel(context: Context, name: str, chosen: Selection, error: str) -> int:
    """Move items of the queue NAME to failed, so that no worker gets them.

    A worker that has the item loses its claim; what it has done already is not undone. `claimq item requeue` sends a
    cancelled item back.

    \b
    claimq item cancel thumbnails order-4711 --error "the customer has withdrawn it"
    claimq item cancel thumbnails --all --state main --client acme --dry-run

    With -o json: `{"queue", "changed": [ID...], "unchanged": [ID...]}`; with --all `cancelled` and
    `problems`.
    """
    return await change_items(context, name, chosen, ItemChange("cancel", error))


@item.command("remove")
@item_selection()
@click.option("--yes", is_flag=True, help="Do not ask for confirmation of --all.")
@with_context
async def remove(context: Context, name: str, chosen: Selection, yes: bool) -> int:
    """Remove items of the queue NAME permanently.

    `claimq failed removed NAME` lists the latest ones that were removed from main, delayed and busy.

    \b
    claimq item remove thumbnails order-4711
    claimq item remove thumbnails --all --state delayed --min-age 168h --dry-run

    With -o json: `{"queue", "changed": [ID...], "unchanged": [ID...]}`; with --all `removed` and `problems`.
    """
    return await change_items(context, name, chosen, ItemChange("remove"), yes=yes)


@item.command("run-now")
@item_selection()
@with_context
async def run_now(context: Context, name: str, chosen: Selection) -> int:
    """Make items of the queue NAME the next ones to be claimed.

    They may be delayed, in main, or failed. Of several clients each still has its turn.

    \b
    claimq item run-now thumbnails order-4711
    claimq item run-now thumbnails --all --state delayed --last-error timeout

    With -o json: `{"queue", "changed": [ID...], "unchanged": [ID...]}`; with --all `run_now` and `problems`.
    """
    return await change_items(context, name, chosen, ItemChange("run-now"))


@item.command("requeue")
@item_selection()
@click.option("--delay", type=Duration(), help="Delay the items for so long; not with --all.")
@with_context
async def requeue(context: Context, name: str, chosen: Selection, delay: float | None) -> int:
    """Send items of the queue NAME to the tail of main, or delay them.

    A worker that has the item loses its claim.

    \b
    claimq item requeue thumbnails order-4711 --delay 1h
    claimq item requeue thumbnails --all --state delayed --last-error timeout

    With -o json: `{"queue", "changed": [ID...], "unchanged": [ID...]}`; with --all `requeued` and `problems`.
    """
    if delay is not None and not chosen.ids:
        raise CommandError("--delay does not go with --all; name the items by their ids", USAGE)
    return await change_items(context, name, chosen, ItemChange("requeue", delay=delay))


@item.command("move")
@item_selection(click.argument("target", cls=QueueArgument))
@with_context
async def move(context: Context, name: str, target: str, chosen: Selection) -> int:
    """Move items of the queue NAME to the queue TARGET.

    They keep id, client, headers and due time, and lose counters and history. An item that a worker has is not moved.

    \b
    claimq item move thumbnails photos order-4711
    claimq item move thumbnails photos --all --state main --json '$.kind=photo'

    With -o json: `{"queue", "changed": [ID...], "unchanged": [ID...]}`; with --all `moved` and `problems`.
    """
    return await change_items(context, name, chosen, ItemChange("move"), target=target)
