"""`claimq failed requeue`, `remove` and `move`: change failed items by their ids, or all that pass filters."""

from __future__ import annotations

import click

from claimq.model import State
from claimq_admin.changes.item_change import ItemChange
from claimq_cli.commands.changing.selected_changes import change_items
from claimq_cli.commands.options.context import Context, with_context
from claimq_cli.commands.reading.item_selection import Selection, item_selection


@click.command("requeue")
@item_selection(state=State.FAILED)
@with_context
async def requeue(context: Context, name: str, chosen: Selection) -> int:
    """Send failed items of the queue NAME back to main.

    Name the items by their ids, or select all that pass the filters with --all.

    \b
    claimq failed requeue thumbnails order-4711
    claimq failed requeue thumbnails --all --error timeout --dry-run
    claimq failed requeue thumbnails --all --error timeout --rate 50
    """
    return await change_items(context, name, chosen, ItemChange("requeue"))


@click.command("remove")
@item_selection(state=State.FAILED)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation of --all.")
@with_context
async def remove(context: Context, name: str, chosen: Selection, yes: bool) -> int:
    """Remove failed items of the queue NAME permanently.

    Name the items by their ids, or select all that pass the filters with --all.

    \b
    claimq failed remove thumbnails order-4711
    claimq failed remove thumbnails --all --min-age 168h --dry-run
    """
    return await change_items(context, name, chosen, ItemChange("remove"), yes=yes)


@click.command("move")
@item_selection(state=State.FAILED)
@click.option("--to", "target", required=True, metavar="TARGET", help="The queue to move the items to.")
@with_context
async def move(context: Context, name: str, chosen: Selection, target: str) -> int:
    """Move failed items of the queue NAME to the queue TARGET.

    They keep id, client and headers, and lose counters and history.

    \b
    claimq failed move thumbnails --all --error "out of memory" --to large-thumbnails
    """
    return await change_items(context, name, chosen, ItemChange("move"), target=target)
