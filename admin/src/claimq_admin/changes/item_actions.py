"""Actions on single items, in whatever state they are. A process that dies in the middle loses nothing: repeat the
action."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import cast

import claimq
from claimq.errors import ClaimqError, StoreUnavailable
from claimq.item_options import kept_options
from claimq.model import Claim, Located, Outcome, State, Verdict
from claimq_admin.changes.queue_admin import QueueAdmin
from claimq_admin.errors import CommandError
from claimq_admin.reads.queue_reads import bytes_of
from claimq_control.large_reads import Turn, in_turn

PAST = {
    "cancel": "cancelled",
    "remove": "removed",
    "run-now": "run_now",
    "requeue": "requeued",
    "move": "moved",
}
"""What can be done to an item, and what it is afterwards."""
CHANGEABLE = {"waiting": State.MAIN, "delayed": State.DELAYED, "failed": State.FAILED}
"""The states whose items can be changed together, by the name of their page."""
_ATTEMPTS = 3
_SMALL_ITEM = 128 * 1024
"""Bytes. The reply with a larger item may be too large outside of a turn."""


@dataclass(frozen=True, slots=True)
class ItemChange:
    """``because``: the error to record with an item that is cancelled. ``delay``: of one that is requeued by its id, in
    seconds. Raises ValueError for an unknown action."""

    action: str
    because: str = "cancelled by hand"
    delay: float | None = None

    def __post_init__(self) -> None:
        if self.action not in PAST:
            raise ValueError(f"there is no such action; write one of {', '.join(PAST)}")


@dataclass(frozen=True, slots=True)
class ActionRecord:
    """Records an action on items. A move is recorded in the audit log of its destination too, and there first: a user
    who may not add items to that queue moves none."""

    admin: QueueAdmin
    action: str

    async def item(self, item_id: str) -> None:
        """Records the action on one item, before it is taken."""
        await self._add("", 1, item_id=item_id)

    async def item_not_done(self, item_id: str) -> None:
        """Records that a recorded action on one item was not carried out."""
        await self._add(": not done", 0, item_id=item_id)

    @asynccontextmanager
    async def selection(self, selector: str, count: Callable[[], int]) -> AsyncGenerator[None]:
        """Records the beginning of the action on the items that match ``selector``, and its end. The block takes these
        items, and sets ``count``, the number of changed items."""
        await self._add("", None, selector=selector)
        try:
            yield
        finally:
            await self._add(": ended", count(), selector=selector)

    async def _add(self, ending: str, count: int | None, *, item_id: str = "", selector: str = "") -> None:
        def about(way: str) -> str:
            return f"{item_id} {way}" if item_id else f"{way}: {selector}"

        what = item_id or selector
        source, destination = self.admin, self.admin.destination
        if destination:
            moved = about(f"from {source.queue.name}")
            await destination.record(f"move here{ending}", moved, count=count, adds=True)
            what = about(f"to {destination.queue.name}")
        await source.record(f"{self.action}{ending}", what, count=count)


async def change_item(admin: QueueAdmin, item_id: str, change: ItemChange, *, is_failed: bool = False) -> str:
    """Records the change of an item, and makes it; returns what was done. A second record says if it was not made.

    ``is_failed``: only an item in failed, otherwise one in any state. CommandError and ClaimqError if the change cannot
    be made, NotInFailed if there is no such failed item, InBoth after a half of a move.
    """
    records = ActionRecord(admin, f"{change.action} failed" if is_failed else change.action)
    queue, item = admin.queue, None
    find = queue.failed_item if is_failed else queue.find
    try:
        await records.item(item_id)
        if admin.turn or is_failed:
            item = await in_turn(admin.turn, lambda: find(item_id))
        if item is None and is_failed:
            raise NotInFailed(queue, item_id)
        async with turn_for(item, admin.turn):
            located, claim = (item, None) if item and is_failed else await _take(queue, item_id)
            return await act_on(admin, located, claim, change)
    except (StoreUnavailable, InBoth):  # it may have been carried out, or was in part
        raise
    except (CommandError, ClaimqError):
        await records.item_not_done(item_id)
        raise


def turn_for(located: Located | None, turn: Turn | None) -> AbstractAsyncContextManager[None]:
    """A turn for calls that return this item, if it is large and there are turns."""
    is_large = located is not None and bytes_of(located.item) > _SMALL_ITEM
    return turn() if turn and is_large else nullcontext()


async def act_on(admin: QueueAdmin, located: Located, claim: Claim | None, change: ItemChange) -> str:
    """Changes an item; returns what was done. ``claim``: on an item that waited in main or delayed.

    A cancelled item is in failed then, a removed one is in the log of removed items, unless it had failed. One to run
    now is before all that no worker has had. A worker that has an item loses its claim; it cannot be run now or moved.
    """
    queue, item_id, is_failed = admin.queue, located.item.id, located.state is State.FAILED
    match change.action:
        case "cancel":
            if is_failed:
                raise CommandError(f"{item_id} has failed already; `claimq item show` shows why")
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
            return await _move(queue, located, claim, cast("QueueAdmin", admin.destination).queue)


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
    queue: claimq.ReliableQueue, located: Located, claim: Claim | None, target: claimq.ReliableQueue
) -> str:
    """Moves an item to another queue, with id, client, headers and due time. Its counters and history end.

    It is enqueued there before it leaves here: a crash in between leaves it in both. CommandError if the other queue
    already knows the id; InBoth if it left its place here at the same time.
    """
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
            f"may be in both; `claimq item show {queue.name} {item_id}` shows whether it is still there"
        )


class NotInFailed(CommandError):
    """There is no such failed item, or it has left failed in the meantime."""

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
