"""Limits how many items are moved per second."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress


class Pace:
    """Limits items per second. None: no limit."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._begun = time.monotonic()
        self._count = 0

    @property
    def is_unlimited(self) -> bool:
        """Whether there is no limit."""
        return self._rate is None

    def most(self, most: int) -> int:
        """How many items to take at once: at most as many as may move in a second."""
        return most if self._rate is None else max(1, min(most, int(self._rate)))

    async def wait(self, count: int, stop: asyncio.Event) -> None:
        """Waits after ``count`` items until the rate allows the next ones, or ``stop`` is set."""
        self._count += count
        if self._rate is None:
            return
        seconds = self._begun + self._count / self._rate - time.monotonic()
        if seconds > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await stop.wait()


UNLIMITED = Pace(None)
