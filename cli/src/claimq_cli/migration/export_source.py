"""Reads the items of a queue, or takes them out of it, in portions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress

import claimq
from claimq.errors import ClaimqError
from claimq.model import Located, State, Verdict
from claimq_cli.errors import REFUSED, CommandError
from claimq_cli.rate_limit import Pace

_MOST, _FIRST, _BYTES = 1000, 100, 4 * 1024 * 1024


def _any(_: Located) -> bool:
    return True


async def read_items(
    queue: claimq.ReliableQueue,
    state: State,
    pace: Pace,
    stop: asyncio.Event,
    passes: Callable[[Located], bool] = _any,
) -> AsyncGenerator[list[Located]]:
    """Yields pages of those items of a state that pass, and leaves them there. Items that move while this runs may be
    skipped or come twice."""
    offset, most = 0, pace.most(_FIRST)
    while not stop.is_set() and (page := await queue.items(state, most, offset=offset)):
        if portion := [one for one in page if passes(one)]:
            yield portion
        offset += len(page)
        mean = sum(len(one.item.payload) for one in page) // len(page) + 1
        most = pace.most(max(1, min(_MOST, _BYTES // mean)))
        await pace.wait(len(page), stop)


async def take_waiting(
    queue: claimq.ReliableQueue, pace: Pace, stop: asyncio.Event
) -> AsyncGenerator[list[Located]]:
    """Yields portions of the items in main, and removes each when the next one is requested. They are claimed for that
    time. If the caller fails, they go back to the head of main; if the process dies, when the lease ends."""
    while not stop.is_set():
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
    passes: Callable[[Located], bool] = _any,
) -> AsyncGenerator[list[Located]]:
    """Yields portions of those failed items that pass, and removes each when the next one is requested."""
    staying = 0
    while not stop.is_set() and (page := await queue.failed_items(pace.most(_FIRST), offset=staying)):
        portion = [one for one in page if passes(one)]
        staying += len(page) - len(portion)
        if portion:
            yield portion
        for one in portion:
            await queue.remove_failed_item(one.name)
        await pace.wait(len(portion), stop)
