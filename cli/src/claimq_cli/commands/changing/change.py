"""Commands that change a whole queue: pause, resume, release, flush, delete."""

from __future__ import annotations

from collections.abc import Mapping

import click

import claimq
from claimq.model import State
from claimq_admin.changes.action_record import recorded_in
from claimq_admin.changes.local_user import local_user
from claimq_admin.changes.queue_actions import WORKER_DIED, QueueActions
from claimq_admin.errors import NOT_DONE, CommandError
from claimq_admin.reads.owners import owner_note
from claimq_admin.text import count
from claimq_cli.commands.changing.page_changes import changes_of
from claimq_cli.commands.options.confirmation import confirm
from claimq_cli.commands.options.context import Context, with_context
from claimq_cli.commands.options.queue_argument import queue_argument
from claimq_cli.output import terminal

_PLACES = ("requeued", "delayed", "failed", "unclaimed")
"""Where items that are given back go."""


def _actions(queue: claimq.ReliableQueue) -> QueueActions:
    """Actions of the user of this process."""
    return QueueActions(queue, recorded_in(queue, local_user()))


@click.command()
@queue_argument
@with_context
async def pause(context: Context, name: str) -> None:
    """Stop claims from the queue NAME until `claimq resume`. Items that are in progress can be finished.

    \b
    claimq pause thumbnails
    """
    note = ""
    if changes := changes_of(context, name):
        await changes.queue("pause")
    else:
        async with context.changed_queue(name) as queue:
            note = await owner_note(queue)
            await _actions(queue).pause()
    if note:
        terminal.say_error(f"warning: {name}{note} stays paused until `claimq resume {name}`")
    context.answers.give({"queue": name, "paused": True}, f"{name}: paused")


@click.command()
@queue_argument
@with_context
async def resume(context: Context, name: str) -> None:
    """Allow claims from the queue NAME again.

    \b
    claimq resume thumbnails
    """
    if changes := changes_of(context, name):
        await changes.queue("resume")
    else:
        async with context.changed_queue(name) as queue:
            await _actions(queue).resume()
    context.answers.give({"queue": name, "paused": False}, f"{name}: resumed")


@click.command()
@queue_argument
@click.argument("worker")
@click.option("--interrupted", is_flag=True, help="Do not count a crash; the items go to the head of main.")
@click.option(
    "--error", default=WORKER_DIED, show_default=True, help="The error that is recorded on the items."
)
@with_context
async def release(context: Context, name: str, worker: str, interrupted: bool, error: str) -> None:
    """Give back the items of the dead WORKER in the queue NAME.

    Their claims end at once, so use it only if the worker does not run any more. `claimq workers` shows the names.

    \b
    claimq release thumbnails thumbnails-6c9d-x7k2p
    """
    if changes := changes_of(context, name):
        given = {"interrupted": "true"} if interrupted else {}
        done = await changes.queue("release", worker=worker, error=error, **given)
    else:
        async with context.changed_queue(name) as queue:
            done = await _actions(queue).release(worker, error, is_interrupted=interrupted)
    document = {"queue": name, "worker": worker, **{key: done[key] for key in (*_PLACES, "total")}}
    parts = [f"{done[key]:,} {key}" for key in _PLACES if done[key]]
    context.answers.give(
        document, f"{name}: {count(done['total'])} given back" + (f" ({', '.join(parts)})" if parts else "")
    )
    if not done["total"]:
        terminal.say_error(
            f"{worker} holds no claim; `claimq workers {name}` lists the workers and their claims"
        )


@click.command()
@queue_argument
@click.option("--client", metavar="CLIENT", help="Remove only the items of this client that are in main.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@with_context
async def flush(context: Context, name: str, client: str | None, yes: bool) -> None:
    """Remove all items of the queue NAME permanently.

    Items are removed in every state, and claims in progress are lost.

    With --client only the items of CLIENT that wait in main are removed.

    \b
    claimq flush thumbnails
    claimq flush thumbnails --client acme --yes
    """
    which = "every item" if client is None else f"all items of the client {client} in main"
    if changes := changes_of(context, name):
        confirm(f"this removes {which} of {name} permanently", is_given=yes)
        done = await changes.queue("flush", **({} if client is None else {"client": client}))
    else:
        async with context.changed_queue(name) as queue:
            confirm(f"this removes {which} of {name}{await owner_note(queue)} permanently", is_given=yes)
            done = await _actions(queue).flush(client)
    removed = done["removed"]
    document = {"queue": name, "client": client, "removed": removed}
    context.answers.give(document, f"{name}: {count(sum(removed.values()))} removed")


@click.command()
@queue_argument
@click.option("--if-empty", is_flag=True, help="Delete the queue only if it has no item in any state.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@with_context
async def delete(context: Context, name: str, if_empty: bool, yes: bool) -> None:
    """Delete the queue NAME with its policy, counters and items.

    This is permanent. Stop the workers of the queue first.

    With --if-empty nothing is deleted if there is an item in any state. To remove the items and keep the policy, use
    `claimq flush`. The next item creates the queue again, with the default policy.

    \b
    claimq delete thumbnails
    claimq delete thumbnails --if-empty --yes
    """
    which = "the policy and the counters" if if_empty else "the policy, the counters and every item"
    async with context.queue(name) as queue:
        confirm(f"this removes {which} of {name}{await owner_note(queue)} permanently", is_given=yes)
        removed = await queue.delete(only_if_empty=if_empty)
        if removed is None:
            raise CommandError(_not_empty(name, await queue.lengths()), NOT_DONE)
    document = {"queue": name, "removed": {state.value: number for state, number in removed.items()}}
    context.answers.give(document, f"{name}: deleted, {count(sum(removed.values()))} removed")


def _not_empty(name: str, lengths: Mapping[State, int]) -> str:
    found = ", ".join(f"{number:,} in {state.value}" for state, number in lengths.items() if number)
    return (
        f"{name} is not empty ({found or 'it had items a moment ago'}), so it was not deleted; wait until it is empty, "
        "or omit --if-empty to remove its items too"
    )
