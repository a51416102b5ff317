"""Decides when calls that share what waits may begin: one at a time, and another beside one whose reply is late."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

LATE_SECONDS = 0.05
"""Seconds without a reply after which the next call may begin beside this one, whose reply may be lost."""
MOST_CALLS = 4
"""Calls in flight at a time, however late their replies are."""


class CallsInFlight:
    """Decides when the next call may begin. ``send`` is called when that may have changed: it begins a call with what
    waits, if there is something and :meth:`may_begin`."""

    def __init__(self, send: Callable[[], object]) -> None:
        self.count = 0
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._latest = 0
        self._late_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def may_begin(self) -> bool:
        """Whether a call may begin now. If not, ``send`` is called as soon as it may."""
        if self.count >= MOST_CALLS:
            return False
        if self._loop.time() >= self._late_at:
            return True
        if self._timer is None:
            self._timer = self._loop.call_at(self._late_at, self._is_late)
        return False

    def begin(self) -> int:
        """A call begins; returns its number."""
        self._stop_waiting()
        self.count += 1
        self._latest += 1
        self._late_at = self._loop.time() + LATE_SECONDS
        return self._latest

    def end(self, number: int) -> None:
        """A call has ended, however."""
        self.count -= 1
        if number == self._latest:
            self._stop_waiting()
        self._send()

    def _is_late(self) -> None:
        self._stop_waiting()
        self._send()

    def _stop_waiting(self) -> None:
        """The next call need not wait for the latest one."""
        self._late_at = 0.0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
