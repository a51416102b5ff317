"""Acts on a queue through a connection to its server."""

from __future__ import annotations

from dataclasses import dataclass

import claimq
from claimq.internals.operations import internals
from claimq.internals.owner import Owner
from claimq.model import State
from claimq_admin.changes.action_record import Destination, Record
from claimq_admin.changes.item_actions import change_item
from claimq_admin.changes.item_change import ItemChange
from claimq_admin.changes.queue_actions import Json, change_queue, policy_of
from claimq_admin.selection.item_filter import ItemFilter
from claimq_admin.selection.selected_items import SelectedItems


@dataclass(frozen=True, slots=True)
class DirectAdmin:
    """See :class:`claimq_admin.queue_admin.QueueAdmin`. ``record`` records each change before it is made.
    ``destination``: where items are moved to."""

    queue: claimq.ReliableQueue
    record: Record
    destination: Destination | None = None

    async def owner(self) -> Owner | None:
        """The owner of the queue."""
        return await internals(self.queue).owner()

    async def policy(self) -> Json:
        """The policy of the queue, and its owner."""
        return await policy_of(self.queue)

    async def change_queue(self, action: str, **fields: str) -> Json:
        """Changes the queue itself, and adds it to the list of `claimq queues`."""
        done = await change_queue(self.queue, self.record, action, fields)
        await self.queue.add_to_index()
        return done

    async def change_item(self, item_id: str, change: ItemChange) -> str:
        """Changes an item in any state."""
        return await change_item(self.queue, self.record, item_id, change, self.destination)

    def selected(
        self, selector: ItemFilter, state: State, limit: int | None = None, rate: float | None = None
    ) -> SelectedItems:
        """The items that pass a filter."""
        return SelectedItems(
            self.queue, selector, self.record, self.destination, limit=limit, state=state, rate=rate
        )
