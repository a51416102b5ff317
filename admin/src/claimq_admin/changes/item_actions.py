"""Actions on single items, in whatever state they are. A process that dies in the middle loses nothing: repeat the
action."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import cast

import claimq
from claimq.errors import ClaimqError, StoreUnavailable
from claimq.item_options import kept_options
from claimq.model import Claim, Located, Outcome, State, Verdict
from claimq_admin.changes.action_record import ActionRecord, Destination, Record
from claimq_admin.changes.item_change import ItemChange
from claimq_admin.errors import CommandError

_ATTEMPTS = 3


async def change_item(
    queue: claimq.ReliableQueue,
    record: Record,
    item_id: str,
    change: ItemChange,
    destination: Destination | None = None,
) -> str:
    """Records the change of an item in any state, and makes it; returns what was done. A second record says if it was
    not made. CommandError and ClaimqError if it cannot be made, InBoth after a half of a move.
    """
    records = ActionRecord(record, change.action, queue.name, destination)
    try:
        await records.item(item_id)
        located, claim = await _take(queue, item_id)
        return await act_on(queue, located, claim, change, destination)
    except (StoreUnavailable, InBoth):  # it may have been carried out, or was in part
        raise
    except (CommandError, ClaimqError):
        await records.item_not_done(item_id)
        raise


async def act_on(
    queue: claimq.ReliableQueue,
    located: Located,
    claim: Claim | None,
    change: ItemChange,
    destination: Destination | None,
) -> str:
    """Changes an item; returns what was done. ``claim``: on an item that waited in main or delayed.

    A cancelled item is in failed then, a removed one is in the log of removed items, unless it had failed. One to run
    now is before all that no worker has had. A worker that has an item loses its claim; it cannot be run now or moved.
    """
    item_id, is_failed = located.item.id, located.state is State.FAILED
    match change.action:
        case "cancel":
            if is_failed:
                raise CommandError(f"{item_id} has failed already; `claimq failed show` shows why")
            _check_settled(item_id, await queue.fail(claim or located.name, change.because, permanent=True))
            return f"{item_id} cancelled; it is in failed now"
        case "remove":
            if not is_failed:
                _check_settled(item_id, await queue.drop(claim or located.name, "removed by hand"))
            elif not await queue.remove_failed_item(located.name, failed_at=located.failed_at):
                raise NotInFailed(queue, item_id)
            return f"{item_id} removed"
        case "run-now":
            _check_not_busy(located)
            next_claim = await _requeue_failed(queue, located, claimed=True) if is_failed else claim
            if next_claim:
                _check_settled(item_id, await queue.unclaim(next_claim, why="run now"))
            return f"{item_id} is next"
        case "requeue":
            return await _requeue(queue, located, claim, change.delay)
        case _:
            return await _move(queue, located, claim, cast("Destination", destination))


async def _requeue(
    queue: claimq.ReliableQueue, located: Located, claim: Claim | None, delay: float | None
) -> str:
    """Puts an item at the tail of main, or delays it."""
    item_id = located.item.id
    if located.state is State.FAILED:
        claim = await _requeue_failed(queue, located, claimed=delay is not None)
        if claim is None:
            return f"{item_id} requeued"
    (outcome,) = outcomes = await queue.requeue(claim or located.name, delay=delay)
    _check_settled(item_id, outcomes)
    return f"{item_id} {outcome.verdict.value}"


async def _move(
    queue: claimq.ReliableQueue, located: Located, claim: Claim | None, destination: Destination
) -> str:
    """Moves an item to another queue, with id, client, headers and due time. Its counters and history end.

    It is enqueued there before it leaves here: a crash in between leaves it in both. CommandError if the other queue
    already knows the id; InBoth if it left its place here at the same time.
    """
    target = destination.queue
    _check_not_busy(located)
    if claim:
        await _move_claimed(queue, target, located, claim)
    else:
        await _move_failed(queue, target, located)
    return f"{located.item.id} moved to {target.name}"


class InBoth(CommandError):
    """A move enqueued the item in the other queue, and could not remove it here."""

    def __init__(self, queue: claimq.ReliableQueue, target: claimq.ReliableQueue, item_id: str) -> None:
        super().__init__(
            f"{item_id} was enqueued in {target.name}, but changed its state in {queue.name} at the same time, so it "
            f"may be in both; `claimq find {queue.name} {item_id}` shows whether it is still there"
        )


class NotInFailed(CommandError):
    """A failed item that was found has left failed since then."""

    def __init__(self, queue: claimq.ReliableQueue, item_id: str) -> None:
        super().__init__(
            f"{item_id} is not in failed of {queue.name} any more: another call has moved, requeued or removed it"
        )


class _Known(CommandError):
    """The other queue knows the id of an item that was to be moved there."""


async def _copy_to(target: claimq.ReliableQueue, located: Located) -> None:
    """Enqueues an item in another queue with its id, client, headers and due time. CommandError if that queue knows the
    id."""
    item = located.item
    enqueued = await target.enqueue(
        item.payload,
        id=item.id,
        client=item.client,
        at=located.due_at,
        **kept_options(item),
    )
    if enqueued.is_duplicate:
        raise _Known(
            f"{target.name} has had an item {item.id} within its id window, so {item.id} was not moved; "
            "if both are the same, remove this one with `claimq item remove`"
        )


async def _move_claimed(
    queue: claimq.ReliableQueue, target: claimq.ReliableQueue, located: Located, claim: Claim
) -> None:
    """Moves an item that waited, and has been claimed, to another queue. If that refuses it, it is the next one."""
    try:
        # Since it was found, a worker may have taken it, and a producer may have enqueued another one of its id.
        await _copy_to(target, replace(located, item=claim.item))
    except (ClaimqError, CommandError):
        await queue.unclaim(claim, why="it could not be moved")
        raise
    if any(outcome.verdict is Verdict.LOST for outcome in await queue.done(claim)):
        raise InBoth(queue, target, claim.item.id)


async def _move_failed(queue: claimq.ReliableQueue, target: claimq.ReliableQueue, located: Located) -> None:
    """Moves a failed item to another queue. NotInFailed if another call was faster."""
    try:
        await _copy_to(target, located)
    except _Known:
        current = await queue.failed_item(located.name)
        if current is None or current.failed_at != located.failed_at:
            raise NotInFailed(queue, located.item.id) from None
        raise
    if not await queue.remove_failed_item(located.name, failed_at=located.failed_at):
        raise InBoth(queue, target, located.item.id)


async def _take(queue: claimq.ReliableQueue, item_id: str) -> tuple[Located, Claim | None]:
    """Where the item was found, with a claim on it if it waited in main or delayed. CommandError if there is none."""
    for _ in range(_ATTEMPTS):
        located = await queue.find(item_id)
        if located is None:
            raise CommandError(
                f"{queue.name} has no item {item_id}: it is done, was removed, or never existed"
            )
        if located.state not in {State.MAIN, State.DELAYED}:
            return located, None
        if claim := await queue.claim_item(item_id):
            return located, claim
    raise CommandError(_moved(item_id))


async def _requeue_failed(queue: claimq.ReliableQueue, located: Located, *, claimed: bool) -> Claim | None:
    """Sends a failed item back to main; with ``claimed`` claims it there, unless a worker is faster."""
    if not await queue.requeue_failed_item(located.name):
        raise NotInFailed(queue, located.item.id)
    return await queue.claim_item(located.item.id) if claimed else None


def _check_settled(item_id: str, outcomes: Iterable[Outcome]) -> None:
    """CommandError if the claim on the item was lost."""
    if any(outcome.verdict is Verdict.LOST for outcome in outcomes):
        raise CommandError(_moved(item_id))


def _check_not_busy(located: Located) -> None:
    if located.state is State.BUSY:
        raise CommandError(
            f"the worker {located.worker} has {located.item.id}; cancel or requeue it, or wait until it ends"
        )


def _moved(item_id: str) -> str:
    return f"{item_id} changed its state at the same time; try again"
