"""Reads the items of a queue, or takes them out of it, in portions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress

import claimq
from claimq.errors import ClaimqError
from claimq.model import Located, State, Verdict
from claimq_admin.errors import REFUSED, CommandError
from claimq_admin.rate_limit import Pace
from claimq_admin.reads.queue_reads import walking
from claimq_admin.text import count

_MOST, _FIRST, _BYTES = 1000, 100, 4 * 1024 * 1024


def every_item(_: Located) -> bool:
    """Matches all items."""
    return True


def portions_of(
    queue: claimq.ReliableQueue,
    state: State,
    pace: Pace,
    stop: asyncio.Event,
    matches: Callable[[Located], bool] = every_item,
    *,
    removes: bool,
) -> AsyncGenerator[list[Located]]:
    """Yields the items of a state in portions, for failed ones those that match. ``removes``: takes them out of the
    queue, which needs main or failed."""
    if not removes:
        return read_items(queue, state, pace, stop, matches)
    if state is State.MAIN:
        return take_waiting(queue, pace, stop)
    return take_failed(queue, pace, stop, matches)


async def read_items(
    queue: claimq.ReliableQueue,
    state: State,
    pace: Pace,
    stop: asyncio.Event,
    matches: Callable[[Located], bool],
) -> AsyncGenerator[list[Located]]:
    """Yields pages of the matching items of a state, and leaves them there. Items that move while this runs may be
    skipped or come twice."""
    offset, most, reads = 0, pace.most(_FIRST), walking("items")
    while not stop.is_set():
        with reads:
            page = await queue.items(state, most, offset=offset)
        if not page:
            break
        if portion := [located for located in page if matches(located)]:
            yield portion
            await pace.wait(len(portion), stop)
        offset += len(page)
        mean = sum(len(located.item.payload) for located in page) // len(page) + 1
        most = pace.most(max(1, min(_MOST, _BYTES // mean)))


async def take_waiting(
    queue: claimq.ReliableQueue, pace: Pace, stop: asyncio.Event
) -> AsyncGenerator[list[Located]]:
    """Yields portions of the items in main, and removes each when the next one is requested. They are claimed for that
    time. If the caller fails, they go back to the head of main; if the process dies, when the lease ends."""
    reads = walking("claim")
    while not stop.is_set():
        with reads:
            claims = await queue.claim(pace.most(_FIRST), wait=0)
        if not claims:
            break
        is_stored = False
        try:
            yield [Located(claim.item, State.MAIN) for claim in claims]
            is_stored = True
        finally:
            if not is_stored:
                with suppress(ClaimqError, asyncio.CancelledError):
                    await queue.unclaim(claims)
        outcomes = await queue.done(claims)
        lost = sum(outcome.verdict is Verdict.LOST for outcome in outcomes)
        if lost:
            raise CommandError(
                f"the leases of {lost:,} items ended while they were written; they are in the target and in the queue"
            )
        await pace.wait(len(claims), stop)
    if not stop.is_set() and await queue.length(State.MAIN):
        raise CommandError(
            "main has items that cannot be claimed now; resume the queue if it is paused", REFUSED
        )


async def take_failed(
    queue: claimq.ReliableQueue,
    pace: Pace,
    stop: asyncio.Event,
    matches: Callable[[Located], bool],
) -> AsyncGenerator[list[Located]]:
    """Yields portions of the matching failed items, and removes each when the next one is requested. Items that another
    process takes out of failed in between can hide others."""
    staying, reads = 0, walking("failed items")
    while not stop.is_set():
        with reads:
            page = await queue.failed_items(pace.most(_FIRST), offset=staying)
        if not page:
            break
        portion = [located for located in page if matches(located)]
        staying += len(page) - len(portion)
        if portion:
            yield portion
        removed = [
            await queue.remove_failed_item(located.name, failed_at=located.failed_at) for located in portion
        ]
        if gone := removed.count(None):
            raise CommandError(
                f"{count(gone)} left failed, or failed again, while they were written; they are in the target and "
                "were not removed. Run the command again, with a new target, for the rest"
            )
        await pace.wait(len(portion), stop)
