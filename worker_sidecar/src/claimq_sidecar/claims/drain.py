"""Decides the next step of a drain. Pure: the sidecar asks again after a change or when the time is up."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum


class Step(StrEnum):
    """What to do now."""

    SERVE = "serve"
    """No drain: serve claims."""
    WAIT = "wait"
    """Claim nothing; wait until the app has finished its items."""
    DRAINED = "drained"
    """Nothing is in flight, or the time is up: answer the drain requests, and wait for SIGTERM."""
    LEAVE = "leave"
    """Return the remaining claims, uncounted, and exit."""


@dataclass(frozen=True, slots=True)
class Drain:
    """The state of a drain. ``started``: monotonic time, None before; ``signals``: SIGTERM or SIGINT so far."""

    timeout: float
    started: float | None = None
    signals: int = 0
    is_final: bool = False

    def begin(self, now: float, *, final: bool = True) -> Drain:
        """Starts the drain. Its time runs from the first call; later calls do not restart it.

        ``final`` (/drain, a signal): it cannot be revoked. Otherwise only the app is stopping, and may be restarted.
        """
        started = now if self.started is None else self.started
        return replace(self, started=started, is_final=self.is_final or final)

    def revoked(self) -> Drain:
        """Ends the drain because only the app was restarted. A final drain goes on."""
        return self if self.is_final else replace(self, started=None)

    def signalled(self, now: float, *, at_once: bool = False) -> Drain:
        """SIGTERM: starts the drain, after which the sidecar exits; ``at_once`` or a second signal: without waiting."""
        return replace(self.begin(now), signals=self.signals + (2 if at_once else 1))

    def step(self, now: float, in_flight: int) -> Step:
        """What to do with ``in_flight`` claims without a verdict."""
        if self.started is None:
            return Step.SERVE
        over = in_flight == 0 or now - self.started >= self.timeout
        if self.signals >= 2 or (self.signals == 1 and over):
            return Step.LEAVE
        return Step.DRAINED if over else Step.WAIT

    def left(self, now: float) -> float:
        """Seconds until the drain times out."""
        return self.timeout if self.started is None else max(0.0, self.started + self.timeout - now)
