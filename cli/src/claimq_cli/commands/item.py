"""`claimq item`: shows and changes single items in any state."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from copy import copy

import click

import claimq
from claimq_cli.commands.context import Context, with_context
from claimq_cli.commands.inspection import find
from claimq_cli.commands.option_types import Command, Duration
from claimq_cli.commands.queue_argument import QueueArgument, queue_argument
from claimq_cli.errors import NOT_DONE, USAGE, CommandError
from claimq_cli.item_actions import ItemActions, recorded_in
from claimq_cli.local_user import local_user
from claimq_cli.output import terminal


@click.group()
def item() -> None:
    """Show, cancel, remove, run, move or requeue single items.

    The items are named by their ids, and may be in any state: in main, delayed, in progress (busy) or failed.
    """


show = copy(find)
show.name = "show"
item.add_command(show)


def _items(command: Command) -> Command:
    return queue_argument(click.argument("ids", metavar="ID...", nargs=-1, required=True)(command))


@item.command("cancel")
@_items
@click.option(
    "--error", default="cancelled by hand", show_default=True, help="The error to record with the item."
)
@with_context
async def cancel(context: Context, name: str, ids: tuple[str, ...], error: str) -> int:
    """Move items of the queue NAME to failed, so that no worker gets them.

    A worker that has the item loses its claim; what it has done already is not undone. `claimq item requeue` sends a
    cancelled item back.

    \b
    claimq item cancel thumbnails order-4711 --error "the customer has withdrawn it"
    """
    async with context.changed_queue(name) as queue:
        actions = _actions(queue)
        return await _each(context, name, ids, lambda one: actions.cancel(one, error))


@item.command("remove")
@_items
@with_context
async def remove(context: Context, name: str, ids: tuple[str, ...]) -> int:
    """Remove items of the queue NAME permanently.

    `claimq failed removed NAME` lists the latest ones that were removed from main, delayed and busy.
    """
    async with context.changed_queue(name) as queue:
        actions = _actions(queue)
        return await _each(context, name, ids, actions.remove)


@item.command("run-now")
@_items
@with_context
async def run_now(context: Context, name: str, ids: tuple[str, ...]) -> int:
    """Make items of the queue NAME the next ones to be claimed.

    They may be delayed, in main, or failed. Of several clients each still has its turn.
    """
    async with context.changed_queue(name) as queue:
        actions = _actions(queue)
        return await _each(context, name, ids, actions.run_now)


@item.command("requeue")
@_items
@click.option("--delay", type=Duration(), help="Delay the items for so long.")
@with_context
async def requeue(context: Context, name: str, ids: tuple[str, ...], delay: float | None) -> int:
    """Send items of the queue NAME to the tail of main, or delay them.

    A worker that has the item loses its claim.
    """
    async with context.changed_queue(name) as queue:
        actions = _actions(queue)
        return await _each(context, name, ids, lambda one: actions.requeue(one, delay))


@item.command("move")
@queue_argument
@click.argument("target", cls=QueueArgument)
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@with_context
async def move(context: Context, name: str, target: str, ids: tuple[str, ...]) -> int:
    """Move items of the queue NAME to the queue TARGET.

    They keep id, client, headers and due time, and lose counters and history. An item that a worker has is not moved.
    """
    if name == target:
        raise CommandError("NAME and TARGET are the same queue", USAGE)
    async with context.queue(name) as queue, context.queue(target) as other:
        actions = _actions(queue)
        return await _each(context, name, ids, lambda one: actions.move(one, other))


def _actions(queue: claimq.ReliableQueue) -> ItemActions:
    return ItemActions(queue, recorded_in(queue, local_user()))


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
