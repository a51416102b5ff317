"""Requeues and removes failed items that a program has read and chosen. Only the admin service needs it; it is not part
of the public API."""

from __future__ import annotations

from collections.abc import Sequence

from claimq.model import Located
from claimq.queue.failed.failed_items import FailedItems
from claimq.queue.queue_part import QueuePart, with_operations_of


def chosen_failed(queue: QueuePart) -> ChosenFailed:
    """The operations for a :class:`claimq.ReliableQueue`, on its connection and under its worker's name."""
    return with_operations_of(ChosenFailed, queue)


class ChosenFailed(FailedItems):
    """Made by :func:`chosen_failed`. An item that has left failed since it was read, or has failed again, stays as it
    is."""

    async def requeue(self, items: Sequence[Located]) -> int:
        """Sends the items back to the tail of main; returns how many. Each call takes up to 100 items, or 2 MiB."""
        return await self._change_chosen("requeue_failed", items)

    async def remove(self, items: Sequence[Located]) -> int:
        """Removes the items; returns how many. Each call takes up to 1,000 items, or 2 MiB."""
        return await self._change_chosen("remove_failed", items)
