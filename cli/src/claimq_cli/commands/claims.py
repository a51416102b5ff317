"""Commands that work on items by hand: claim, done, fail."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import click

import claimq
from claimq.errors import ClaimqError
from claimq.model import Claim, Outcome, State, Verdict
from claimq.queue.lease_keeper import LeaseKeeper
from claimq.queue.token_groups import TokenGroups
from claimq_cli.commands.context import Context, with_context
from claimq_cli.commands.option_types import Command, Duration
from claimq_cli.commands.queue_argument import queue_argument
from claimq_cli.errors import INTERRUPTED, NOT_DONE, UNAVAILABLE, USAGE, CommandError
from claimq_cli.item_actions import not_done
from claimq_cli.local_user import local_user
from claimq_cli.output import documents, terminal
from claimq_cli.output.answers import count, instant, payload
from claimq_cli.output.log import log_to_stderr
from claimq_cli.stop_signals import stopping
from claimq_spec.duration import readable_duration

_LONGEST_PAUSE = 3.0
"""Seconds between renewals, which also show whether a claim has ended."""
_CHECK_SECONDS = 0.5


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
        if not claims and stop.is_set():
            raise CommandError("interrupted; no item was claimed", INTERRUPTED)
        if not claims:
            await queue.record_action(local_user(), not_done("claim"), target, count=0)
            raise CommandError(await _why_none(queue, name, item_id))
        try:
            _show(context, name, claims)
        except OSError as error:  # without their tokens no one could end the claims
            await queue.unclaim(claims)
            raise CommandError(
                f"the tokens cannot be printed ({error.strerror}); no item was claimed"
            ) from error
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
        await asyncio.wait({claiming})
        return [] if claiming.cancelled() or claiming.exception() else claiming.result()
    finally:
        stopped.cancel()


async def _why_none(queue: claimq.ReliableQueue, name: str, item_id: str | None) -> str:
    if item_id is not None:
        return f"{name} has no item {item_id} in main or delayed; `claimq find {name} {item_id}` shows where it is"
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
    """Renews until no claim is left or ``stop`` is set, which gives the remaining ones back."""
    terminal.say_error(f"holding {count(len(claims))}; press Ctrl-C to give back what is not done or failed")
    log_to_stderr("claimq.queue.lease_keeper", logging.INFO)
    keeper = LeaseKeeper(queue, longest_pause=_LONGEST_PAUSE)
    keeper.hold(claims)
    renewing = asyncio.ensure_future(keeper.run())
    try:
        while keeper.held and not stop.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(_CHECK_SECONDS):
                    await stop.wait()
    finally:
        renewing.cancel()
        await asyncio.wait({renewing})
    if not keeper.held:
        terminal.say_error(f"{name}: all claims have ended")
        return 0
    try:
        outcomes = await queue.unclaim(keeper.held)
    except ClaimqError as error:
        raise CommandError(
            f"{error}; items that were not given back return when their leases end", UNAVAILABLE
        ) from error
    back = sum(one.verdict is Verdict.UNCLAIMED for one in outcomes)
    terminal.say_error(f"{name}: {count(back)} given back")
    return INTERRUPTED


def _tokens(command: Command) -> Command:
    return queue_argument(click.argument("tokens", metavar="TOKEN...", nargs=-1, required=True)(command))


@click.command()
@_tokens
@with_context
async def done(context: Context, name: str, tokens: tuple[str, ...]) -> int:
    """End claims of the queue NAME as done.

    The work is finished, and the items are removed. The tokens are those that `claimq claim` prints.

    \b
    claimq done thumbnails "$token"
    """
    return await _settle(context, name, "done", tokens, lambda queue: queue.done(tokens))


@click.command()
@_tokens
@click.option(
    "--error", default="failed by hand", show_default=True, help="The error to record with the items."
)
@click.option("--permanent", is_flag=True, help="Move the items to failed, without another attempt.")
@with_context
async def fail(context: Context, name: str, tokens: tuple[str, ...], error: str, permanent: bool) -> int:
    """End claims of the queue NAME as failed.

    The items go back to main, are delayed by the queue's retryDelay, or are in failed after their last attempt.

    \b
    claimq fail thumbnails "$token" --error "the image is broken" --permanent
    """
    return await _settle(
        context, name, "fail", tokens, lambda queue: queue.fail(tokens, error, permanent=permanent)
    )


async def _settle(
    context: Context,
    name: str,
    action: str,
    tokens: tuple[str, ...],
    settle: Callable[[claimq.ReliableQueue], Awaitable[list[Outcome]]],
) -> int:
    """Prints the outcome of each token; exit code 1 if a claim was lost."""
    TokenGroups.of(tokens)  # raises ValueError before anything is recorded
    async with context.changed_queue(name) as queue:
        await queue.record_action(local_user(), action, " ".join(tokens), count=len(tokens))
        outcomes = await settle(queue)
        lost = [one.token for one in outcomes if one.verdict is Verdict.LOST]
        if lost:
            await queue.record_action(local_user(), not_done(action), " ".join(lost), count=0)
    for token in lost:
        terminal.say_error(
            f"the claim {token} was lost: its lease ended, or it was ended before; nothing was changed "
            f"(`claimq find {name} ID` shows the item)"
        )
    context.answers.give(
        {"queue": name, "outcomes": [documents.outcome(one) for one in outcomes]},
        *(f"{name}: {one.token} {_outcome(one)}" for one in outcomes if one.verdict is not Verdict.LOST),
        each="outcomes",
    )
    return NOT_DONE if lost else 0


def _outcome(outcome: Outcome) -> str:
    if outcome.delay is None:
        return outcome.verdict.value
    return f"{outcome.verdict.value} for {readable_duration(outcome.delay)}"
