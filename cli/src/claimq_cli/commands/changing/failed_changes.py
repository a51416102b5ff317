"""`claimq failed requeue`, `remove` and `move`: change failed items by their ids, or all that pass filters."""

from __future__ import annotations

import click

from claimq_admin.changes.action_record import destination_of
from claimq_admin.changes.local_user import local_user
from claimq_admin.errors import USAGE, CommandError
from claimq_admin.reads.owners import owner_note
from claimq_admin.selection.selected_items import SelectedItems
from claimq_cli.commands.changing.page_changes import changes_of
from claimq_cli.commands.changing.selected_changes import carry_out, confirm_removal
from claimq_cli.commands.options.context import Context, with_context
from claimq_cli.commands.reading.item_selection import Selection, failed_selection


@click.command("requeue")
@failed_selection
@with_context
async def requeue(context: Context, name: str, chosen: Selection) -> int:
    """Send failed items of the queue NAME back to main.

    Name the items by their ids, or select all that pass the filters with --all.

    \b
    claimq failed requeue thumbnails order-4711
    claimq failed requeue thumbnails --all --error timeout --dry-run
    claimq failed requeue thumbnails --all --error timeout --rate 50
    """
    if changes := changes_of(context, name):
        return await changes.selected(chosen, "requeue", "requeued")
    async with context.queue(name) as queue:
        items = SelectedItems(queue, chosen.wanted, chosen.limit)
        return await carry_out(context, name, chosen, items, items.requeueing(), "requeued")


@click.command("remove")
@failed_selection
@click.option("--yes", is_flag=True, help="Do not ask for confirmation of --all.")
@with_context
async def remove(context: Context, name: str, chosen: Selection, yes: bool) -> int:
    """Remove failed items of the queue NAME permanently.

    Name the items by their ids, or select all that pass the filters with --all.

    \b
    claimq failed remove thumbnails order-4711
    claimq failed remove thumbnails --all --min-age 168h --dry-run
    """
    if changes := changes_of(context, name):
        return await changes.selected(chosen, "remove", "removed", yes=yes)
    async with context.queue(name) as queue:
        items = SelectedItems(queue, chosen.wanted, chosen.limit)
        confirm_removal(name, chosen, await owner_note(queue), is_given=yes)
        return await carry_out(context, name, chosen, items, items.removing(), "removed")


@click.command("move")
@failed_selection
@click.option("--to", "target", required=True, metavar="TARGET", help="The queue to move the items to.")
@with_context
async def move(context: Context, name: str, chosen: Selection, target: str) -> int:
    """Move failed items of the queue NAME to the queue TARGET.

    They keep id, client and headers, and lose counters and history.

    \b
    claimq failed move thumbnails --all --error "out of memory" --to large-thumbnails
    """
    if name == target:
        raise CommandError("NAME and TARGET are the same queue", USAGE)
    if changes := changes_of(context, name):
        return await changes.selected(chosen, "move", "moved", target=changes.name_on_page(target))
    async with context.queue(name) as queue, context.queue(target) as other:
        items = SelectedItems(queue, chosen.wanted, chosen.limit)
        return await carry_out(
            context,
            name,
            chosen,
            items,
            items.moving_to(destination_of(other, local_user())),
            "moved",
        )
