"""Commands that change a whole queue: pause, resume, release, flush, delete."""

from __future__ import annotations

from collections.abc import Mapping

import click

from claimq.internals.operations import internals
from claimq.model import State
from claimq_admin.changes.queue_actions import WORKER_DIED
from claimq_admin.errors import NOT_DONE, CommandError
from claimq_admin.reads.owners import owner_note
from claimq_admin.text import count
from claimq_cli.commands.options.confirmation import confirm
from claimq_cli.commands.options.context import Context, with_context
from claimq_cli.commands.options.queue_argument import queue_argument
from claimq_cli.output import terminal

_PLACES = ("requeued", "delayed", "failed", "unclaimed")
"""Where items that are given back go."""


@click.command()
@queue_argument
@with_context
async def pause(context: Context, name: str) -> None:
    """Stop claims from the queue NAME until `claimq resume`. Items that are in progress can be finished.

    \b
    claimq pause thumbnails
    """
    async with context.admin(name) as admin:
        note = owner_note(await admin.owner())
        await admin.change_queue("pause")
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
    async with context.admin(name) as admin:
        await admin.change_queue("resume")
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
    is_interrupted = "true" if interrupted else "false"
    async with context.admin(name) as admin:
        done = await admin.change_queue("release", worker=worker, error=error, interrupted=is_interrupted)
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
    async with context.admin(name) as admin:
        note = owner_note(await admin.owner())
        confirm(f"this removes {which} of {name}{note} permanently", is_given=yes)
        done = await admin.change_queue("flush", **({} if client is None else {"client": client}))
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
        note = owner_note(await internals(queue).owner())
        confirm(f"this removes {which} of {name}{note} permanently", is_given=yes)
        removed = await queue.delete(only_if_empty=if_empty)
        if removed is None:
            raise CommandError(_not_empty(name, await queue.lengths()), NOT_DONE)
    document = {"queue": name, "removed": {state.value: number for state, number in removed.items()}}
    context.answers.give(document, f"{name}: deleted, {count(sum(removed.values()))} removed")


def _not_empty(name: str, lengths: Mapping[State, int]) -> str:
    counts = ", ".join(f"{number:,} in {state.value}" for state, number in lengths.items() if number)
    return (
        f"{name} is not empty ({counts or 'it had items a moment ago'}), so it was not deleted; wait until it is "
        "empty, or omit --if-empty to remove its items too"
    )
