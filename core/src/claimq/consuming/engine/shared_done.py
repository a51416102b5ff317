"""Finished items: those that come while a call is in flight share the next one, which ends their claims."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Generic, TypeVar

from claimq.concurrency.calls_in_flight import CallsInFlight
from claimq.concurrency.notify import Notifier
from claimq.queue.token_groups import BATCH

AnyClaim = TypeVar("AnyClaim")


class SharedDone(Generic[AnyClaim]):
    """Ends claims with one call at a time, with up to four while replies are late (:class:`CallsInFlight`)."""

    def __init__(
        self,
        settle: Callable[[list[AnyClaim]], Coroutine[Any, Any, None]],
        in_background: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        """``settle`` ends claims, through an outage of any length."""
        self.waiting: list[AnyClaim] = []
        self.added_count = self.sent_count = 0
        """Claims that were ever added, and those of them that were sent."""
        self.sent = Notifier()
        self._settle = settle
        self._in_background = in_background
        self._calls = CallsInFlight(self._schedule_call)
        self._is_call_scheduled = False
        """Whether a call begins in the next turn of the event loop."""

    def add(self, claims: Sequence[AnyClaim]) -> bool:
        """Adds claims whose work is finished. Returns whether they are sent in the next turn of the event loop."""
        self.waiting += claims
        self.added_count += len(claims)
        return self._schedule_call()

    def _schedule_call(self) -> bool:
        if not self.waiting or self._is_call_scheduled or not self._calls.may_begin():
            return False
        self._is_call_scheduled = True
        self._in_background(self._call())
        return True

    async def _call(self) -> None:
        claims, self.waiting = self.waiting[:BATCH], self.waiting[BATCH:]
        self.sent_count += len(claims)
        number = self._calls.begin()
        self._is_call_scheduled = False
        self.sent.notify()
        self._schedule_call()  # the rest, when it may
        try:
            await self._settle(claims)
        finally:
            self._calls.end(number)
