"""Commands that work on items by hand: claim, done, fail."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import click

import claimq
from claimq.model import Claim, Outcome, State, Verdict
from claimq.queue.lease_keeper import LeaseKeeper
from claimq_cli.commands.context import Context, with_context
from claimq_cli.commands.option_types import Command, Duration
from claimq_cli.commands.queue_argument import queue_argument
from claimq_cli.errors import INTERRUPTED, NOT_DONE, USAGE, CommandError
from claimq_cli.local_user import local_user
from claimq_cli.output import documents, terminal
from claimq_cli.output.answers import count, instant, payload
from claimq_cli.stop_signals import stopping
from claimq_spec.duration import format_duration

_LOOK = 0.5
"""Seconds between two looks at whether all claims have ended."""


@click.command()
@queue_argument
@click.option(
    "--limit",
    "number",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Claim up to this number of items.",
)
@click.option("--id", "item_id", metavar="ID", help="Claim this item, which waits in main or is delayed.")
@click.option("--wait", type=Duration(), default="0s", metavar="DURATION", help="Wait for an item (30s, 5m).")
@click.option("--hold", is_flag=True, help="Renew the leases until Ctrl-C, which gives the items back.")
@with_context
async def claim(
    context: Context, name: str, number: int, item_id: str | None, wait: float, hold: bool
) -> int:
    """Claim items of the queue NAME by hand, and print their tokens.

    \b
    claimq claim thumbnails --hold
    token=$(claimq claim thumbnails -o name) && claimq done thumbnails "$token"

    No worker gets the items until their leases end (busyExpiry of the queue; the default is 30 seconds) or `claimq
    done` or `claimq fail` ends the claims. With --hold the command stays and renews the leases: end the claims in
    another terminal. To run a program for each item, use `claimq worker`.
    """
    if item_id is not None and (number != 1 or wait):
        raise CommandError("--id claims one item at once; omit --limit and --wait", USAGE)
    async with stopping() as stop, context.changed_queue(name) as queue:
        target = f"up to {count(number)}" if item_id is None else item_id
        await queue.record_action(local_user(), "claim", target)
        claims = await _claimed(queue, number, item_id, wait, stop)
        if not claims:
            raise CommandError(
                await _why_none(queue, name, item_id), INTERRUPTED if stop.is_set() else NOT_DONE
            )
        _show(context, name, claims)
        return await _hold(queue, name, claims, stop) if hold else 0


async def _claimed(
    queue: claimq.ReliableQueue, number: int, item_id: str | None, wait: float, stop: asyncio.Event
) -> list[Claim]:
    """Claims; an empty list if there is no item, or ``stop`` was set while it waited."""
    if item_id is not None:
        found = await queue.claim_item(item_id)
        return [found] if found else []
    claiming = asyncio.ensure_future(queue.claim(number, wait=wait))
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({claiming, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if claiming.done():
            return claiming.result()
        claiming.cancel()  # gives back what it claims
        with suppress(asyncio.CancelledError):
            await claiming
        return []
    finally:
        stopped.cancel()


async def _why_none(queue: claimq.ReliableQueue, name: str, item_id: str | None) -> str:
    if item_id is not None:
        return f"{name} has no item {item_id} in main or delayed"
    snapshot = await queue.snapshot()
    if snapshot.paused:
        return f"{name} is paused; run `claimq resume {name}`, or claim one item with --id"
    return f"{name} has no item in main ({snapshot.lengths[State.DELAYED]:,} delayed)"


def _show(context: Context, name: str, claims: Sequence[Claim]) -> None:
    context.answers.give_table(
        {"queue": name, "claims": [documents.claim(one) for one in claims]},
        ["token", "id", "lease until", "~payload"],
        [[one.token, one.item.id, instant(one.lease_until), payload(one.item)] for one in claims],
        each="claims",
    )


async def _hold(queue: claimq.ReliableQueue, name: str, claims: Sequence[Claim], stop: asyncio.Event) -> int:
    """Renews until all claims have ended or ``stop`` is set, which gives the remaining ones back."""
    keeper = LeaseKeeper(queue)
    keeper.hold(claims)
    terminal.say_error(f"holding {count(len(claims))}; press Ctrl-C to give back those without a verdict")
    renewing = asyncio.ensure_future(keeper.run())
    try:
        while keeper.is_holding and not stop.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK):
                    await stop.wait()
    finally:
        renewing.cancel()
        await asyncio.wait({renewing})
    if not stop.is_set():
        terminal.say_error(f"{name}: all claims have ended")
        return 0
    outcomes = await queue.unclaim(claims)
    back = sum(one.verdict is Verdict.UNCLAIMED for one in outcomes)
    terminal.say_error(f"{name}: {count(back)} given back")
    return INTERRUPTED


def _tokens(command: Command) -> Command:
    return queue_argument(click.argument("tokens", metavar="TOKEN...", nargs=-1, required=True)(command))


@click.command()
@_tokens
@with_context
async def done(context: Context, name: str, tokens: tuple[str, ...]) -> int:
    """End the claims TOKEN of the queue NAME: the work is finished, and their items are removed.

    The tokens are those that `claimq claim` prints.
    """
    async with context.queue(name) as queue:
        return await _settle(context, name, queue, "done", tokens, queue.done)


@click.command()
@_tokens
@click.option(
    "--error", default="failed by hand", show_default=True, help="The error to record with the items."
)
@click.option("--permanent", is_flag=True, help="Move the items to failed, without another attempt.")
@with_context
async def fail(context: Context, name: str, tokens: tuple[str, ...], error: str, permanent: bool) -> int:
    """End the claims TOKEN of the queue NAME: the attempt failed.

    The items go back to main, are delayed by the queue's retryDelay, or are in failed after their last attempt.

    \b
    claimq fail thumbnails "$token" --error "the image is broken" --permanent
    """
    async with context.queue(name) as queue:
        return await _settle(
            context, name, queue, "fail", tokens, lambda given: queue.fail(given, error, permanent=permanent)
        )


async def _settle(
    context: Context,
    name: str,
    queue: claimq.ReliableQueue,
    action: str,
    tokens: tuple[str, ...],
    settle: Callable[[Sequence[str]], Awaitable[list[Outcome]]],
) -> int:
    """Prints the verdict of each token; exit code 1 if a claim was lost."""
    await queue.record_action(local_user(), action, " ".join(tokens), count=len(tokens))
    outcomes = await settle(tokens)
    lost = [one.token for one in outcomes if one.verdict is Verdict.LOST]
    for token in lost:
        terminal.say_error(f"{token} is not held any more: its lease has ended, or it has a verdict already")
    context.answers.give(
        {"queue": name, "outcomes": [documents.outcome(one) for one in outcomes]},
        *(f"{name}: {one.token} {_verdict(one)}" for one in outcomes if one.verdict is not Verdict.LOST),
        each="outcomes",
    )
    return NOT_DONE if lost else 0


def _verdict(outcome: Outcome) -> str:
    if outcome.delay is None:
        return outcome.verdict.value
    return f"{outcome.verdict.value} for {format_duration(outcome.delay)}"
