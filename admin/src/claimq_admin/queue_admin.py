"""The interface to a queue for its administrators: a connection to its server has it, and so has a web page."""

from __future__ import annotations

from typing import Any, Protocol

from claimq.internals.owner import Owner
from claimq.model import State
from claimq_admin.changes.item_change import ItemChange, Selected
from claimq_admin.reads.queue_reads import ReadableQueue
from claimq_admin.selection.item_filter import ItemFilter

Json = dict[str, Any]


class QueueAdmin(Protocol):
    """A queue on which a user acts. Each change is recorded before it is made. CommandError and ClaimqError if it
    cannot be made."""

    @property
    def queue(self) -> ReadableQueue:
        """Reads of the queue, and new items."""
        ...

    async def owner(self) -> Owner | None:
        """The object that owns the queue."""
        ...

    async def policy(self) -> Json:
        """The policy of the queue, and the text of its owner or None."""
        ...

    async def change_queue(self, action: str, **fields: str) -> Json:
        """Changes the queue itself; returns what was done. ``action`` and ``fields``: see QUEUE_ACTIONS. For wrong
        fields also ValueError and TypeError."""
        ...

    async def change_item(self, item_id: str, change: ItemChange) -> str:
        """Changes an item in any state; returns what was done."""
        ...

    def selected(
        self, selector: ItemFilter, state: State, limit: int | None = None, rate: float | None = None
    ) -> Selected:
        """The first ``limit`` items of a state that pass a filter, of which ``rate`` are changed in a second."""
        ...
