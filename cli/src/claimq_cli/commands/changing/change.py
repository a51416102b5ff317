"""Commands that change a whole queue: pause, resume, release, flush, delete."""

from __future__ import annotations

from collections.abc import Mapping

import click

import claimq
from claimq.limits import Pause
from claimq.model import State
from claimq.waiting.texts import pause_text
from claimq_admin.changes.queue_admin import WORKER_DIED, QueueAdmin
from claimq_admin.errors import NOT_DONE, CommandError
from claimq_admin.instants import parse_end
from claimq_admin.reads.owners import owner_note
from claimq_admin.text import count
from claimq_cli.commands.changing.interruptible import interruptible
from claimq_cli.commands.options.confirmation import confirm
from claimq_cli.commands.options.context import Context, with_context
from claimq_cli.commands.options.queue_argument import queue_argument
from claimq_cli.output import terminal

_PLACES = ("requeued", "delayed", "failed", "unclaimed")
"""Where items that are given back go."""


@click.command()
@queue_argument
@click.option("--client", default="", metavar="NAME", help="Only the items of this client.")
@click.option("--key", default="", metavar="KEY", help="Only the items with this key.")
@click.option("--until", default="", metavar="INSTANT", help="When the pause ends: 14:00, or ISO 8601.")
@click.option("--for", "within", default="", metavar="DURATION", help="How long the pause lasts: 10m, 2h.")
@click.option("--reason", default="", metavar="TEXT", help="Why; shown wherever the pause is.")
@with_context
async def pause(
    context: Context, name: str, client: str, key: str, until: str, within: str, reason: str
) -> None:
    """Stop claims from the queue NAME until `claimq resume`.

    With --until or --for the pause ends by itself.

    \b
    claimq pause thumbnails --for 30m --reason "database upgrade"
    claimq pause thumbnails --client ann --until 14:00

    With -o json: `{"queue", "client", "key", "paused"}`.
    """
    parse_end(until, within, now=0.0)  # a wrong one ends the command before it connects
    async with context.admin(name) as admin:
        note = owner_note(await admin.owner())
        await interruptible(
            admin.pause(until, within, reason, client, key), lambda: _paused(name, admin, client, key)
        )
        pause = await _pause_of(admin, client, key)
    if note and not (until or within):
        terminal.say_error(f"warning: {name}{note} stays paused until `{context.command} resume {name}`")
    document = {"queue": name, "client": client or None, "key": key or None, "paused": True}
    context.answers.give(
        document, f"{name}: {pause_text(pause or Pause(client=client or None, key=key or None))}"
    )


@click.command()
@queue_argument
@click.option("--client", default="", metavar="NAME", help="Only the items of this client.")
@click.option("--key", default="", metavar="KEY", help="Only the items with this key.")
@with_context
async def resume(context: Context, name: str, client: str, key: str) -> None:
    """Allow claims from the queue NAME again.

    \b
    claimq resume thumbnails --client ann

    With -o json: `{"queue", "client", "key", "paused"}`.
    """
    async with context.admin(name) as admin:
        was_paused = await interruptible(admin.resume(client, key), lambda: _paused(name, admin, client, key))
    text = f"{name}: " + (f"the client {client} " if client else f"the key {key} " if key else "")
    text += "resumed" if was_paused else "was not paused"
    context.answers.give({"queue": name, "client": client or None, "key": key or None, "paused": False}, text)


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

    With -o json: `{"queue", "worker", "requeued", "delayed", "failed", "unclaimed", "total"}`.
    """
    async with context.admin(name) as admin:
        done = await interruptible(
            admin.release(worker, interrupted=interrupted, error=error), lambda: _held(worker, admin)
        )
    parts = [f"{done[key]:,} {key}" for key in _PLACES if done[key]]
    text = f"{name}: {count(done['total'])} given back" + (f" ({', '.join(parts)})" if parts else "")
    context.answers.give({"queue": name, **done}, text)
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

    With -o json: `{"queue", "client", "removed": {"main", "busy", "delayed", "failed"}}`.
    """
    which = "every item" if client is None else f"all items of the client {client} in main"
    async with context.admin(name) as admin:
        note = owner_note(await admin.owner())
        confirm(f"this removes {which} of {name}{note} permanently", is_given=yes)
        done = await interruptible(admin.flush(client), lambda: _left(name, admin, client))
    context.answers.give({"queue": name, **done}, f"{name}: {count(sum(done['removed'].values()))} removed")


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

    With -o json: `{"queue", "removed": {"main", "busy", "delayed", "failed"}}`.
    """
    which = "the policy and the counters" if if_empty else "the policy, the counters and every item"
    async with context.admin(name) as admin:
        note = owner_note(await admin.owner())
        confirm(f"this removes {which} of {name}{note} permanently", is_given=yes)
        deletion = admin.delete(only_if_empty=if_empty)
        done = await interruptible(deletion, lambda: _deleted(name, admin.queue))
        if done is None:
            raise CommandError(_not_empty(name, await admin.queue.lengths()), NOT_DONE)
    text = f"{name}: deleted, {count(sum(done['removed'].values()))} removed"
    context.answers.give({"queue": name, **done}, text)


async def _pause_of(admin: QueueAdmin, client: str, key: str) -> Pause | None:
    pauses = (await admin.queue.snapshot()).pauses
    return next((pause for pause in pauses if (pause.client or "", pause.key or "") == (client, key)), None)


async def _paused(name: str, admin: QueueAdmin, client: str, key: str) -> str:
    pause = await _pause_of(admin, client, key)
    return f"{name}: {pause_text(pause)}" if pause else f"{client or key or name} is not paused"


async def _held(worker: str, admin: QueueAdmin) -> str:
    held = sum(entry.busy for entry in await admin.queue.workers() if entry.worker == worker)
    return f"{worker} holds {count(held)}" + (
        ", the others are given back; repeat the command" if held else ""
    )


async def _left(name: str, admin: QueueAdmin, client: str | None) -> str:
    lengths = await admin.queue.lengths()
    number = sum(lengths.values()) if client is None else await admin.queue.client_length(client)
    return f"{count(number)} of {client or name} left" + (
        "; repeat the command to remove them" if number else ""
    )


async def _deleted(name: str, queue: claimq.ReliableQueue) -> str:
    if not await queue.exists():
        return f"{name} is deleted"
    number = sum((await queue.lengths()).values())
    return f"{name} is not deleted and has {count(number)}; repeat the command"


def _not_empty(name: str, lengths: Mapping[State, int]) -> str:
    counts = ", ".join(f"{number:,} in {state.value}" for state, number in lengths.items() if number)
    return (
        f"{name} is not empty ({counts or 'it had items a moment ago'}), so it was not deleted; wait until it is "
        "empty, or omit --if-empty to remove its items too"
    )
