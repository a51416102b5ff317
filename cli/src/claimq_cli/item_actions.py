"""Actions on one item, in whatever state it is. A process that dies in the middle loses nothing: repeat the action."""

from __future__ import annotations

from collections.abc import Iterable

import claimq
from claimq.errors import ClaimqError
from claimq.model import Claim, Located, Outcome, State, Verdict
from claimq_cli.errors import CommandError

_ATTEMPTS = 3


async def cancel(queue: claimq.ReliableQueue, item_id: str, error: str) -> str:
    """Moves an item that waits or is in progress to failed. Its worker, if any, loses the claim.

    Returns what was done. CommandError if there is no such item, or it has failed already.
    """
    found, claim = await _take(queue, item_id)
    if found.state is State.FAILED:
        raise CommandError(f"{item_id} has failed already; `claimq failed show` shows why")
    _check(item_id, await queue.fail(claim or found.name, error, permanent=True))
    return f"{item_id} cancelled; it is in failed now"


async def remove(queue: claimq.ReliableQueue, item_id: str) -> str:
    """Removes an item in any state; all but failed ones are then in the log of removed items.

    CommandError if there is no such item.
    """
    found, claim = await _take(queue, item_id)
    if found.state is State.FAILED:
        if not await queue.remove_failed_item(found.name):
            raise _moved(item_id)
    else:
        _check(item_id, await queue.drop(claim or found.name, "removed by hand"))
    return f"{item_id} removed"


async def run_now(queue: claimq.ReliableQueue, item_id: str) -> str:
    """Puts an item that is delayed, waits or has failed before all that no worker has had.

    CommandError if there is no such item, or a worker has it.
    """
    found, claim = await _take(queue, item_id)
    _check_not_busy(found)
    if found.state is State.FAILED:
        claim = await _requeue_failed(queue, found, claimed=True)
    if claim:
        _check(item_id, await queue.unclaim(claim, why="run now"))
    return f"{item_id} is next"


async def requeue(queue: claimq.ReliableQueue, item_id: str, delay: float | None) -> str:
    """Puts an item in any state at the tail of main, or delays it. A worker that has it loses the claim.

    CommandError if there is no such item.
    """
    found, claim = await _take(queue, item_id)
    if found.state is State.FAILED:
        claim = await _requeue_failed(queue, found, claimed=delay is not None)
        if claim is None:
            return f"{item_id} requeued"
    (outcome,) = outcomes = await queue.requeue(claim or found.name, delay=delay)
    _check(item_id, outcomes)
    return f"{item_id} {outcome.verdict.value}"


async def move(queue: claimq.ReliableQueue, item_id: str, target: claimq.ReliableQueue) -> str:
    """Moves an item that waits, is delayed or has failed to another queue, with its id, client and due time.

    Its counters and history end. It is enqueued there before it leaves here: a crash in between leaves it in both.

    CommandError if there is no such item, a worker has it, or the other queue already knows the id.
    """
    found, claim = await _take(queue, item_id)
    _check_not_busy(found)
    item = found.item
    try:
        enqueued = await target.enqueue(item.payload, id=item.id, client=item.client, at=found.due_at)
        if enqueued.is_duplicate:
            raise CommandError(
                f"{target.name} has had an item {item_id} within its id window, so {item_id} was not moved; "
                "if both are the same, remove this one with `claimq item remove`"
            )
    except (ClaimqError, CommandError):
        if claim:
            await queue.unclaim(claim, why="it could not be moved")
        raise
    if claim:
        _check(item_id, await queue.done(claim))
    else:
        await queue.remove_failed_item(found.name)
    return f"{item_id} moved to {target.name}"


async def _take(queue: claimq.ReliableQueue, item_id: str) -> tuple[Located, Claim | None]:
    """Where the item was found, with a claim on it if it waited in main or delayed. CommandError if there is none."""
    for _ in range(_ATTEMPTS):
        found = await queue.find(item_id)
        if found is None:
            raise CommandError(
                f"{queue.name} has no item {item_id}: it is done, was removed, or never existed"
            )
        if found.state not in {State.MAIN, State.DELAYED}:
            return found, None
        if claim := await queue.claim_item(item_id):
            return found, claim
    raise _moved(item_id)


async def _requeue_failed(queue: claimq.ReliableQueue, found: Located, *, claimed: bool) -> Claim | None:
    """Sends a failed item back to main; with ``claimed`` claims it there, unless a worker is faster."""
    if not await queue.requeue_failed_item(found.name):
        raise _moved(found.item.id)
    return await queue.claim_item(found.item.id) if claimed else None


def _check(item_id: str, outcomes: Iterable[Outcome]) -> None:
    if any(outcome.verdict is Verdict.LOST for outcome in outcomes):
        raise _moved(item_id)


def _check_not_busy(found: Located) -> None:
    if found.state is State.BUSY:
        raise CommandError(
            f"the worker {found.worker} has {found.item.id}; cancel or requeue it, or wait until it ends"
        )


def _moved(item_id: str) -> CommandError:
    return CommandError(f"{item_id} changed its state at the same time; try again")
