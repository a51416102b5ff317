"""Actions on single items, in whatever state they are. A process that dies in the middle loses nothing: repeat the
action."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
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


class ItemActions:
    """What a person can do with single items of a queue. Each action is recorded before it is taken. CommandError and
    ClaimqError if it cannot be taken.
    """

    def __init__(self, queue: claimq.ReliableQueue, record: Record) -> None:
        self._queue = queue
        self._record = record

    async def change(self, item_id: str, change: ItemChange, destination: Destination | None) -> str:
        """Changes an item; returns what was done. ``destination``: where it is moved to."""
        match change.action:
            case "cancel":
                return await self.cancel(item_id, change.because)
            case "remove":
                return await self.remove(item_id)
            case "run-now":
                return await self.run_now(item_id)
            case "requeue":
                return await self.requeue(item_id, change.delay)
            case _:
                return await self.move(item_id, cast("Destination", destination))

    async def cancel(self, item_id: str, error: str) -> str:
        """Moves an item that waits or is in progress to failed. Its worker, if any, loses the claim.

        Returns what was done. CommandError if there is no such item, or it has failed already.
        """
        async with self._acting("cancel", item_id) as (found, claim):
            if found.state is State.FAILED:
                raise CommandError(f"{item_id} has failed already; `claimq failed show` shows why")
            check_settled(item_id, await self._queue.fail(claim or found.name, error, permanent=True))
        return f"{item_id} cancelled; it is in failed now"

    async def remove(self, item_id: str) -> str:
        """Removes an item in any state; all but failed ones are then in the log of removed items.

        CommandError if there is no such item.
        """
        async with self._acting("remove", item_id) as (found, claim):
            if found.state is State.FAILED:
                if not await self._queue.remove_failed_item(found.name, failed_at=found.failed_at):
                    raise NotInFailed(self._queue, item_id)
            else:
                check_settled(item_id, await self._queue.drop(claim or found.name, "removed by hand"))
        return f"{item_id} removed"

    async def run_now(self, item_id: str) -> str:
        """Puts an item that is delayed, waits or has failed before all that no worker has had.

        CommandError if there is no such item, or a worker has it.
        """
        async with self._acting("run-now", item_id) as (found, taken):
            _check_not_busy(found)
            claim = taken
            if found.state is State.FAILED:
                claim = await _requeue_failed(self._queue, found, claimed=True)
            if claim:
                check_settled(item_id, await self._queue.unclaim(claim, why="run now"))
        return f"{item_id} is next"

    async def requeue(self, item_id: str, delay: float | None) -> str:
        """Puts an item in any state at the tail of main, or delays it. A worker that has it loses the claim.

        CommandError if there is no such item.
        """
        async with self._acting("requeue", item_id) as (found, taken):
            claim = taken
            if found.state is State.FAILED:
                claim = await _requeue_failed(self._queue, found, claimed=delay is not None)
                if claim is None:
                    return f"{item_id} requeued"
            (outcome,) = outcomes = await self._queue.requeue(claim or found.name, delay=delay)
            check_settled(item_id, outcomes)
        return f"{item_id} {outcome.verdict.value}"

    async def move(self, item_id: str, destination: Destination) -> str:
        """Moves an item that waits, is delayed or has failed to another queue, with id, client, headers and due time.

        Its counters and history end. It is enqueued there before it leaves here: a crash in between leaves it in both.

        CommandError if there is no such item, a worker has it, or the other queue already knows the id; InBoth if it
        left its place here at the same time.
        """
        target = destination.queue
        async with self._acting("move", item_id, destination) as (found, claim):
            _check_not_busy(found)
            if claim:
                await move_claimed(self._queue, target, found, claim)
            else:
                await move_failed(self._queue, target, found)
        return f"{item_id} moved to {target.name}"

    @asynccontextmanager
    async def _acting(
        self, action: str, item_id: str, destination: Destination | None = None
    ) -> AsyncGenerator[tuple[Located, Claim | None]]:
        """Records the action, takes the item for the block, and records if the block did not carry it out."""
        record = ActionRecord(self._record, action, self._queue.name, destination)
        try:
            await record.item(item_id)
            yield await _take(self._queue, item_id)
        except (StoreUnavailable, InBoth):  # it may have been carried out, or was in part
            raise
        except (CommandError, ClaimqError):
            await record.item_not_done(item_id)
            raise


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


async def copy_to(target: claimq.ReliableQueue, found: Located) -> None:
    """Enqueues an item in another queue with its id, client, headers and due time. CommandError if that queue knows the
    id."""
    item = found.item
    enqueued = await target.enqueue(
        item.payload,
        id=item.id,
        client=item.client,
        at=found.due_at,
        **kept_options(item),
    )
    if enqueued.is_duplicate:
        raise _Known(
            f"{target.name} has had an item {item.id} within its id window, so {item.id} was not moved; "
            "if both are the same, remove this one with `claimq item remove`"
        )


async def move_claimed(
    queue: claimq.ReliableQueue, target: claimq.ReliableQueue, found: Located, claim: Claim
) -> None:
    """Moves an item that waited, and has been claimed, to another queue. If that refuses it, it is the next one."""
    try:
        # Since it was found, a worker may have taken it, and a producer may have enqueued another one of its id.
        await copy_to(target, replace(found, item=claim.item))
    except (ClaimqError, CommandError):
        await queue.unclaim(claim, why="it could not be moved")
        raise
    if any(outcome.verdict is Verdict.LOST for outcome in await queue.done(claim)):
        raise InBoth(queue, target, claim.item.id)


async def move_failed(queue: claimq.ReliableQueue, target: claimq.ReliableQueue, found: Located) -> None:
    """Moves a failed item to another queue. NotInFailed if another call was faster."""
    try:
        await copy_to(target, found)
    except _Known:
        current = await queue.failed_item(found.name)
        if current is None or current.failed_at != found.failed_at:
            raise NotInFailed(queue, found.item.id) from None
        raise
    if not await queue.remove_failed_item(found.name, failed_at=found.failed_at):
        raise InBoth(queue, target, found.item.id)


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
        raise NotInFailed(queue, found.item.id)
    return await queue.claim_item(found.item.id) if claimed else None


def check_settled(item_id: str, outcomes: Iterable[Outcome]) -> None:
    """CommandError if the claim on the item was lost."""
    if any(outcome.verdict is Verdict.LOST for outcome in outcomes):
        raise _moved(item_id)


def _check_not_busy(found: Located) -> None:
    if found.state is State.BUSY:
        raise CommandError(
            f"the worker {found.worker} has {found.item.id}; cancel or requeue it, or wait until it ends"
        )


def _moved(item_id: str) -> CommandError:
    return CommandError(f"{item_id} changed its state at the same time; try again")
