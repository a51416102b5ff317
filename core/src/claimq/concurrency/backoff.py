"""Exponential backoff: the delays between attempts. The caller sleeps."""

from __future__ import annotations

import random
from collections.abc import Iterator

RANDOM = random.SystemRandom()
"""Of the library's own: a program that has seeded the module `random` keeps its numbers."""


class Backoff:
    """Delays in seconds that double from ``first`` up to ``longest``.

    ``jitter`` is the share of a delay that is random: 0 gives exact delays, 1 delays between 0 and the full value.
    """

    def __init__(self, first: float, longest: float, *, jitter: float = 0.0) -> None:
        self._first = first
        self._longest = longest
        self._jitter = jitter
        self._upcoming = first

    def __iter__(self) -> Iterator[float]:
        """An endless sequence of delays from ``first`` on; iterating does not change :meth:`next`."""
        fresh = Backoff(self._first, self._longest, jitter=self._jitter)
        while True:
            yield fresh.next()

    def next(self) -> float:
        """The delay before the next attempt."""
        delay = min(self._upcoming, self._longest)
        self._upcoming = min(delay * 2, self._longest)
        return delay * (1 - self._jitter * RANDOM.random())

    def reset(self) -> None:
        """Call it after a success: the next delay is ``first`` again."""
        self._upcoming = self._first
