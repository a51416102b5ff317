"""One loop over items: what it has claimed, and whether the end of a block may claim its next items."""

from __future__ import annotations

from typing import Generic

from claimq.errors import ClaimqError
from claimq.worker.backends import Waiter
from claimq.worker.item import AnyItem
from claimq.worker.loops.verdicts import PendingVerdict

_QUICK_SECONDS = 0.01
_SHORT_SECONDS = 0.001
_TURN_SECONDS = 0.002


class Loop(Generic[AnyItem]):
    """A loop over :meth:`Client.items`.

    The end of ``with item:`` also claims items for the loop, in the same request, if the loop asked for the next one
    at once after the block before: then none of them waits behind other code of the program.
    """

    def __init__(self) -> None:
        self.claimed: list[AnyItem] = []
        """What it has claimed for itself alone."""
        self.current: AnyItem | None = None
        """The item that the program has, until it asks for the next one."""
        self.pending: PendingVerdict[AnyItem] | None = None
        """Its last verdict."""
        self.error: ClaimqError | None = None
        """Of a verdict that the end of its block did not wait for, or of a shared claim."""
        self.turn: Waiter | None = None
        """Its wait for a shared claim."""
        self.is_served = False
        """Whether a shared claim for it got nothing."""
        self._is_quick = False
        self._began_at = 0.0
        self._ended_at: float | None = None
        self._turn_until = 0.0

    def begin(self, item: AnyItem, now: float) -> AnyItem:
        """The program gets this item. ``now``: seconds of a monotonic clock."""
        self.current = item
        item.is_begun = True
        self._began_at = now
        self._ended_at = None
        return item

    def note_end(self, now: float) -> None:
        """A block has ended with a verdict."""
        self._ended_at = now

    def note_asked(self, now: float) -> None:
        """The program asks for the next item."""
        self.current = None
        self._is_quick = self._ended_at is not None and now < self._ended_at + _QUICK_SECONDS

    def wake(self) -> None:
        """Ends its wait for a shared claim, if it waits."""
        if self.turn is not None:
            self.turn.wake()

    def raise_error(self) -> None:
        """Raises its error, once."""
        error, self.error = self.error, None
        if error is not None:
            raise error

    def claims_after(self, item: AnyItem, caller: object) -> bool:
        """Whether the end of this item's block, in the caller's thread or task, is to claim the next items."""
        is_quick = self._is_quick and self.current is item
        return is_quick and item.claimed_by == caller and not self.claimed

    def is_short(self, now: float) -> bool:
        """Whether the program has had its item for a very short time."""
        return now < self._began_at + _SHORT_SECONDS

    def ends_turn(self, now: float) -> bool:
        """Whether others are to run now: other tasks of the event loop, or greenlets."""
        if now < self._turn_until:
            return False
        self._turn_until = now + _TURN_SECONDS
        return True
