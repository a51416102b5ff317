"""The concurrency limit: how many claims a consumer may have at once, and which claim request is next."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from claimq.concurrency.notify import Notifier


@dataclass(slots=True, eq=False)
class SlotRequest:
    """One claim request's slots. ``slots``: how many items it may claim once ``granted`` is set; 1 to ``most``."""

    most: int
    slots: int = 0
    granted: asyncio.Event = field(default_factory=asyncio.Event)


class Slots:
    """Counts the slots in use, and grants free ones to claim requests.

    A slot is in use while a claim request holds it, while its item is in flight, and while an item is on its way
    back to the queue. All of them call :meth:`take` and :meth:`release`; there is no other counter.

    Requests are granted in order of arrival. The first waits for a single slot and then gets all free ones up to its
    ``most``, so a request for many items waits no longer than one for a single item.
    """

    def __init__(self, limit: int | None, changed: Notifier | None = None) -> None:
        """``limit`` None: no limit. ``changed`` is notified of every release."""
        self.limit = limit
        self.in_use = 0
        """Slots in use. More than the limit after a session has adopted claims."""
        self._changed = changed or Notifier()
        self._waiting: dict[SlotRequest, None] = {}

    @property
    def waiting(self) -> int:
        """Claim requests that wait for a slot."""
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether no slot is free."""
        return self.limit is not None and self.in_use >= self.limit

    def free_of(self, most: int) -> int:
        """How many of ``most`` slots are free."""
        return most if self.limit is None else max(0, min(most, self.limit - self.in_use))

    def request(self, most: int) -> SlotRequest:
        """Asks for 1 to ``most`` slots. The caller must call :meth:`finish` in the end, granted or not."""
        request = SlotRequest(most)
        self._waiting[request] = None
        self._grant()
        return request

    def resize(self, limit: int) -> None:
        """Changes the limit. Slots in use above a lower one stay in use."""
        self.limit = limit
        self._grant()

    def finish(self, request: SlotRequest) -> None:
        """Releases the request's slots. The caller has called :meth:`take` for those that stay in use."""
        self._waiting.pop(request, None)
        slots, request.slots = request.slots, 0
        self.release(slots)

    def take(self, count: int) -> None:
        """Takes slots without waiting, also beyond the limit."""
        self.in_use += count

    def release(self, count: int) -> None:
        """Frees slots and grants them to the requests that wait."""
        self.in_use -= count
        self._grant()
        self._changed.notify()

    @contextmanager
    def held(self, count: int) -> Generator[None]:
        """Takes slots as :meth:`take` while the context lasts."""
        self.take(count)
        try:
            yield
        finally:
            self.release(count)

    def _grant(self) -> None:
        while self._waiting and not self.is_full:
            request = next(iter(self._waiting))
            del self._waiting[request]
            request.slots = self.free_of(request.most)
            self.in_use += request.slots
            request.granted.set()
