"""The entries of an action in the audit logs of the queues that it changes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Protocol

import claimq


class Record(Protocol):
    """Records an action of a user, as :meth:`claimq.ReliableQueue.record_action` does."""

    async def __call__(self, action: str, target: str = "", *, count: int | None = None) -> None:
        """Records it. Raises StoreUnavailable; the action must not be taken then."""
        ...


def recorded_in(queue: claimq.ReliableQueue, actor: str, *, adds: bool = False) -> Record:
    """Records the actions of ``actor`` in the audit log of the queue. ``adds``: they only add items to it."""
    return partial(queue.record_action, actor, adds=adds)


@dataclass(frozen=True, slots=True)
class Destination:
    """The queue that items are moved to. ``record`` records that in its audit log."""

    queue: claimq.ReliableQueue
    record: Record


def destination_of(queue: claimq.ReliableQueue, actor: str) -> Destination:
    """The destination of items that ``actor`` moves."""
    return Destination(queue, recorded_in(queue, actor, adds=True))


@dataclass(frozen=True, slots=True)
class ActionRecord:
    """Records an action on items of the queue ``source``. A move is recorded in the audit log of its destination too,
    and there first: a user who may not add items to that queue moves none."""

    record: Record
    action: str
    source: str
    destination: Destination | None = None

    async def item(self, item_id: str) -> None:
        """Records the action on one item, before it is taken."""
        await self._add("", 1, item_id=item_id)

    async def item_not_done(self, item_id: str) -> None:
        """Records that a recorded action on one item was not carried out."""
        await self._add(": not done", 0, item_id=item_id)

    async def selection(self, selector: str) -> None:
        """Records the beginning of the action on all items that match ``selector``."""
        await self._add("", None, selector=selector)

    async def selection_ended(self, selector: str, count: int) -> None:
        """Records the end of that action, with the number of changed items."""
        await self._add(": ended", count, selector=selector)

    async def _add(self, ending: str, count: int | None, *, item_id: str = "", selector: str = "") -> None:
        def about(way: str) -> str:
            return f"{item_id} {way}" if item_id else f"{way}: {selector}"

        what = item_id or selector
        if self.destination:
            await self.destination.record(f"move here{ending}", about(f"from {self.source}"), count=count)
            what = about(f"to {self.destination.queue.name}")
        await self.record(f"{self.action}{ending}", what, count=count)
