"""One loop over items: what it has claimed ahead, and whether the end of a block may claim its next items."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic

from claimq.worker.item import AnyItem

_QUICK_SECONDS = 0.01


class Loop(Generic[AnyItem]):
    """A loop over :meth:`Client.items`.

    The end of ``with item:`` also claims the loop's next items, in the same request, if the loop asked for the next one
    at once after the block before: then none of them waits behind other code of the program.
    """

    def __init__(self, chunk: int) -> None:
        self.chunk = chunk
        self.ahead: list[AnyItem] = []
        self.current: AnyItem | None = None
        """The item that the program has, until it asks for the next one."""
        self.is_served = True
        """Whether the sidecar has such a request."""
        self._is_quick = False
        self._ended_at: float | None = None

    def add(self, items: Iterable[AnyItem]) -> None:
        """Items that were claimed ahead."""
        for item in items:
            item.is_begun = False
            self.ahead.append(item)

    def begin(self) -> AnyItem:
        """The next item of those that were claimed ahead."""
        self.current = self.ahead.pop(0)
        self.current.is_begun = True
        self._ended_at = None
        return self.current

    def note_end(self, now: float) -> None:
        """A block has ended with a verdict. ``now``: seconds of a monotonic clock."""
        self._ended_at = now

    def note_asked(self, now: float) -> None:
        """The program asks for the next item."""
        self.current = None
        self._is_quick = self._ended_at is not None and now < self._ended_at + _QUICK_SECONDS

    def claims_after(self, item: AnyItem, caller: object) -> bool:
        """Whether the end of this item's block, in the caller's thread or task, is to claim the next items."""
        is_quick = self.is_served and self._is_quick and self.current is item
        return is_quick and item.claimed_by == caller and not self.ahead
