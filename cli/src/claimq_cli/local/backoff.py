"""How long to wait before what has died is started again. Pure: the caller passes the times."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_DELAY = 0.5
LONGEST_DELAY = 30.0
STEADY_AFTER = 10.0
"""What ran for so many seconds counts as healthy: its next end is a first one."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """How often in a row something ended soon after its start, and when it may be started again."""

    ends: int = 0
    retry_at: float = 0.0

    def after_end(self, *, ran_for: float, now: float) -> Backoff:
        """The next state after an end: waits of 0.5, 1, 2, 4 ... 30 s, from the beginning after a steady run."""
        ends = 1 if ran_for >= STEADY_AFTER else self.ends + 1
        return Backoff(ends, now + delay_before_start(ends))


def delay_before_start(ends: int) -> float:
    """Seconds to wait after so many ends in a row."""
    return min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(max(ends - 1, 0), 16))
