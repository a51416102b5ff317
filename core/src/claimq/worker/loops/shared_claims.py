"""Claims for loops that have no item: one request at a time, for all that wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Generic

from claimq.errors import ClaimqError
from claimq.worker.backends import Backend
from claimq.worker.item import AnyItem
from claimq.worker.loops.loop import Loop
from claimq.worker.wire import MOST


class SharedClaims(Generic[AnyItem]):
    """The loops that wait form a line; the first one claims for all. A loop that leaves the line wakes the first.

    Without a lock: each change of a deque is atomic, and a loop that is interrupted may hold no lock.
    """

    def __init__(
        self,
        backend: Backend,
        claim: Callable[[int, float], Awaitable[list[AnyItem]]],
        give_back: Callable[[Sequence[AnyItem]], None],
    ) -> None:
        """``claim``: up to so many items, waiting so many seconds for the first."""
        self._backend = backend
        self._claim = claim
        self._give_back = give_back
        self._line: deque[Loop[AnyItem]] = deque()
        self._items: deque[AnyItem] = deque()
        """Those that no loop has taken; never more than loops in the line."""

    async def next(self, loop: Loop[AnyItem], wait: float) -> None:
        """Adds an item to what the loop has claimed, unless the request that claimed for it got none. Raises what that
        request raised. An interrupted loop calls :meth:`leave` too.
        """
        loop.is_served = False
        try:
            self._line.append(loop)
            while True:
                turn = loop.turn = self._backend.waiter()  # first: what changes from now on ends the wait
                with suppress(IndexError):
                    loop.claimed.append(self._items.popleft())
                if loop.claimed or loop.is_served:
                    break
                if self._line[0] is loop:
                    await self._claim_for_all(wait)
                else:
                    await turn.wait()
        finally:
            self.leave(loop)
        if not loop.claimed:
            loop.raise_error()

    async def _claim_for_all(self, wait: float) -> None:
        loops, error = list(self._line)[:MOST], None
        try:
            self._items.extend(await self._claim(len(loops), wait))
        except ClaimqError as failure:
            error = failure
        if not self._items:
            for loop in loops:
                loop.error = error or loop.error
                loop.is_served = True
        for loop in loops[: len(self._items)] or loops:
            loop.wake()

    def leave(self, loop: Loop[AnyItem]) -> None:
        """The loop waits no longer: the next one claims, and what no loop waits for goes back."""
        with suppress(ValueError):
            self._line.remove(loop)
        with suppress(IndexError):
            while len(self._items) > len(self._line):
                self._give_back([self._items.pop()])
            self._line[0].wake()
