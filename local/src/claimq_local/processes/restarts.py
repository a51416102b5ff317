"""Computes when a process that has died is restarted. Pure: the caller passes the times."""

from __future__ import annotations

from claimq.concurrency.backoff import Backoff

FIRST_DELAY = 0.5
LONGEST_DELAY = 30.0
STEADY_AFTER = 10.0
"""Seconds. A process that ran this long counts as healthy, and its delays start over."""


class Restarts:
    """The early exits of a process in a row, and the delay before the next start: 0.5, 1, 2, 4 ... 30 s."""

    def __init__(self) -> None:
        self._backoff = Backoff(FIRST_DELAY, LONGEST_DELAY)
        self.exits = 0
        self.delay = 0.0
        self.retry_at = 0.0

    def add_exit(self, *, ran_for: float, now: float) -> None:
        """Sets the delay and the time of the next start."""
        if ran_for >= STEADY_AFTER:
            self._backoff.reset()
            self.exits = 0
        self.exits += 1
        self.delay = self._backoff.next()
        self.retry_at = now + self.delay
