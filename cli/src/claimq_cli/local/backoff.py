"""Computes when a process that has died is restarted. Pure: the caller passes the times."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_DELAY = 0.5
LONGEST_DELAY = 30.0
STEADY_AFTER = 10.0
"""Seconds. A process that ran this long counts as healthy, and its backoff starts over."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Number of early exits in a row, and the earliest time of the next start."""

    ends: int = 0
    retry_at: float = 0.0

    def after_end(self, *, ran_for: float, now: float) -> Backoff:
        """The state after an exit. Delays are 0.5, 1, 2, 4 ... 30 s, and start over after a healthy run."""
        ends = 1 if ran_for >= STEADY_AFTER else self.ends + 1
        return Backoff(ends, now + delay_before_start(ends))


def delay_before_start(ends: int) -> float:
    """Delay in seconds after this many exits in a row."""
    return min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(max(ends - 1, 0), 16))
