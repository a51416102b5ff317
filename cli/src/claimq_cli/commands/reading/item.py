"""`claimq item`: shows and changes single items in any state, and all items in main or delayed that pass filters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from copy import copy

import click

import claimq
from claimq_admin.changes.action_record import destination_of, recorded_in
from claimq_admin.changes.item_actions import ItemActions
from claimq_admin.changes.local_user import local_user
from claimq_admin.errors import NOT_DONE, USAGE, CommandError
from claimq_admin.reads.owners import owner_note
from claimq_admin.selection.selected_items import SelectedItems
from claimq_cli.commands.changing.page_changes import changes_of
from claimq_cli.commands.changing.selected_changes import carry_out, confirm_removal
from claimq_cli.commands.options.context import Context, with_context
from claimq_cli.commands.options.option_types import Duration
from claimq_cli.commands.options.queue_argument import QueueArgument
from claimq_cli.commands.reading.inspection import find
from claimq_cli.commands.reading.item_selection import Selection, waiting_selection
from claimq_cli.output import terminal
from claimq_process.duration import format_duration


@click.group()
def item() -> None:
    """Show, cancel, remove, run, move or requeue items.

    Items that are named by their ids may be in any state: in main, delayed, in progress (busy) or failed. With --all
    and --state, all items in main or delayed that pass the filters are changed; for failed ones use `claimq failed`.
    """


show = copy(find)
show.name = "show"
item.add_command(show)


@item.command("cancel")
@waiting_selection()
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
    """
    if changes := changes_of(context, name):
        if chosen.ids:
            return await _each(
                context, name, chosen.ids, lambda one: changes.item(one, "cancel", error=error)
            )
        return await changes.selected(chosen, "cancel", "cancelled", because=error)
    async with context.changed_queue(name) as queue:
        if chosen.ids:
            actions = _actions(queue)
            return await _each(context, name, chosen.ids, lambda one: actions.cancel(one, error))
        items = _selected(queue, chosen)
        return await carry_out(context, name, chosen, items, items.cancelling(error), "cancelled")


@item.command("remove")
@waiting_selection()
@click.option("--yes", is_flag=True, help="Do not ask for confirmation of --all.")
@with_context
async def remove(context: Context, name: str, chosen: Selection, yes: bool) -> int:
    """Remove items of the queue NAME permanently.

    `claimq failed removed NAME` lists the latest ones that were removed from main, delayed and busy.

    \b
    claimq item remove thumbnails order-4711
    claimq item remove thumbnails --all --state delayed --min-age 168h --dry-run
    """
    if changes := changes_of(context, name):
        if chosen.ids:
            return await _each(context, name, chosen.ids, lambda one: changes.item(one, "remove"))
        return await changes.selected(chosen, "remove", "removed", yes=yes)
    async with context.changed_queue(name) as queue:
        if chosen.ids:
            return await _each(context, name, chosen.ids, _actions(queue).remove)
        items = _selected(queue, chosen)
        confirm_removal(name, chosen, await owner_note(queue), is_given=yes)
        return await carry_out(context, name, chosen, items, items.removing(), "removed")


@item.command("run-now")
@waiting_selection()
@with_context
async def run_now(context: Context, name: str, chosen: Selection) -> int:
    """Make items of the queue NAME the next ones to be claimed.

    They may be delayed, in main, or failed. Of several clients each still has its turn.

    \b
    claimq item run-now thumbnails order-4711
    claimq item run-now thumbnails --all --state delayed --last-error timeout
    """
    if changes := changes_of(context, name):
        if chosen.ids:
            return await _each(context, name, chosen.ids, lambda one: changes.item(one, "run-now"))
        return await changes.selected(chosen, "run-now", "run_now")
    async with context.changed_queue(name) as queue:
        if chosen.ids:
            return await _each(context, name, chosen.ids, _actions(queue).run_now)
        items = _selected(queue, chosen)
        return await carry_out(context, name, chosen, items, items.running_now(), "run_now")


@item.command("requeue")
@waiting_selection()
@click.option("--delay", type=Duration(), help="Delay the items for so long; not with --all.")
@with_context
async def requeue(context: Context, name: str, chosen: Selection, delay: float | None) -> int:
    """Send items of the queue NAME to the tail of main, or delay them.

    A worker that has the item loses its claim.

    \b
    claimq item requeue thumbnails order-4711 --delay 1h
    claimq item requeue thumbnails --all --state delayed --last-error timeout
    """
    if delay is not None and not chosen.ids:
        raise CommandError("--delay does not go with --all; name the items by their ids", USAGE)
    if changes := changes_of(context, name):
        text = "" if delay is None else format_duration(delay)
        if chosen.ids:
            return await _each(
                context, name, chosen.ids, lambda one: changes.item(one, "requeue", delay=text)
            )
        return await changes.selected(chosen, "requeue", "requeued")
    async with context.changed_queue(name) as queue:
        if chosen.ids:
            actions = _actions(queue)
            return await _each(context, name, chosen.ids, lambda one: actions.requeue(one, delay))
        items = _selected(queue, chosen)
        return await carry_out(context, name, chosen, items, items.requeueing(), "requeued")


@item.command("move")
@waiting_selection(click.argument("target", cls=QueueArgument))
@with_context
async def move(context: Context, name: str, target: str, chosen: Selection) -> int:
    """Move items of the queue NAME to the queue TARGET.

    They keep id, client, headers and due time, and lose counters and history. An item that a worker has is not moved.

    \b
    claimq item move thumbnails photos order-4711
    claimq item move thumbnails photos --all --state main --json '$.kind=photo'
    """
    if name == target:
        raise CommandError("NAME and TARGET are the same queue", USAGE)
    if changes := changes_of(context, name):
        there = changes.name_on_page(target)
        if chosen.ids:
            return await _each(context, name, chosen.ids, lambda one: changes.item(one, "move", target=there))
        return await changes.selected(chosen, "move", "moved", target=there)
    async with context.queue(name) as queue, context.queue(target) as other:
        destination = destination_of(other, local_user())
        if chosen.ids:
            actions = _actions(queue)
            return await _each(context, name, chosen.ids, lambda one: actions.move(one, destination))
        items = _selected(queue, chosen)
        return await carry_out(context, name, chosen, items, items.moving_to(destination), "moved")


def _actions(queue: claimq.ReliableQueue) -> ItemActions:
    return ItemActions(queue, recorded_in(queue, local_user()))


def _selected(queue: claimq.ReliableQueue, chosen: Selection) -> SelectedItems:
    return SelectedItems(queue, chosen.wanted, chosen.limit, chosen.state)


async def _each(
    context: Context, name: str, ids: tuple[str, ...], act: Callable[[str], Awaitable[str]]
) -> int:
    """Acts on each item. Errors of single items are printed, and the others go on; exit code 1 if there are any."""
    changed: list[str] = []
    failed: list[str] = []
    said: list[str] = []
    for one in dict.fromkeys(ids):
        try:
            said.append(f"{name}: {await act(one)}")
            changed.append(one)
        except CommandError as error:
            terminal.say_error(str(error))
            failed.append(one)
    context.answers.give({"queue": name, "changed": changed, "unchanged": failed}, *said)
    return NOT_DONE if failed else 0
