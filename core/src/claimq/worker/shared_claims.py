"""Claims for loops that have no item: one request at a time, for all that wait."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic

from claimq.worker.backends import Backend, Waiter
from claimq.worker.item import AnyItem


class SharedClaims(Generic[AnyItem]):
    """The first loop that waits claims for all; the others get what it has claimed, or one of them claims next."""

    def __init__(self, backend: Backend, claim: Callable[[int, float], Awaitable[list[AnyItem]]]) -> None:
        """``claim``: up to so many items, waiting so many seconds for the first."""
        self._backend = backend
        self._claim = claim
        self._lock = threading.Lock()
        self._waiters: list[Waiter] = []
        self._is_claiming = False
        self.items: deque[AnyItem] = deque()
        """Claimed items that no loop has taken."""

    async def next(self, wait: float) -> AnyItem | None:
        """An item; None if there was none when the request ended. Raises what the claim raises."""
        with self._lock:
            if self.items:
                return self.items.popleft()
            waiter = self._backend.waiter() if self._is_claiming else None
            if waiter is None:
                self._is_claiming = True
            else:
                self._waiters.append(waiter)
        if waiter is not None:
            await waiter.wait()
        else:
            try:
                self.items.extend(await self._claim(1 + len(self._waiters), wait))
            finally:
                with self._lock:
                    self._is_claiming = False
                    waiters, self._waiters = self._waiters, []
                for waiter in waiters:
                    waiter.wake()
        return self._take()

    def _take(self) -> AnyItem | None:
        with self._lock:
            return self.items.popleft() if self.items else None
