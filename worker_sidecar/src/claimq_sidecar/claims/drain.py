"""What a drain does next: pure. The sidecar asks again when something has changed or the time has passed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum


class Step(StrEnum):
    """What to do now."""

    SERVE = "serve"
    """No drain: claim and hand out."""
    WAIT = "wait"
    """Claim nothing; the app finishes what it has in hand."""
    REST = "rest"
    """The app's hands are empty or its time is over: answer those who asked, and wait for SIGTERM."""
    LEAVE = "leave"
    """Give back what is left, uncounted, and exit."""


@dataclass(frozen=True, slots=True)
class Drain:
    """The state of a drain. ``started``: by the monotonic clock, None before; ``signals``: SIGTERM or SIGINT so far."""

    timeout: float
    started: float | None = None
    signals: int = 0
    is_final: bool = False

    def begin(self, now: float, *, final: bool = True) -> Drain:
        """From now on nothing is claimed. Asking again changes nothing; the time runs from the first.

        ``final`` (/drain, a signal): there is no way back. Otherwise only the app was told to end, perhaps to be
        started again.
        """
        started = now if self.started is None else self.started
        return replace(self, started=started, is_final=self.is_final or final)

    def revoked(self) -> Drain:
        """The app was started again, and nobody ends this sidecar: claims go on, unless the drain is final."""
        return self if self.is_final else replace(self, started=None)

    def signalled(self, now: float, *, at_once: bool = False) -> Drain:
        """SIGTERM: begins too, and the sidecar leaves at the end; at once if asked to, or with a second one."""
        return replace(self.begin(now), signals=self.signals + (2 if at_once else 1))

    def step(self, now: float, in_hand: int) -> Step:
        """What to do with ``in_hand`` claims without a verdict."""
        if self.started is None:
            return Step.SERVE
        over = in_hand == 0 or now - self.started >= self.timeout
        if self.signals >= 2 or (self.signals == 1 and over):
            return Step.LEAVE
        return Step.REST if over else Step.WAIT

    def left(self, now: float) -> float:
        """Seconds until the drain time is over."""
        return self.timeout if self.started is None else max(0.0, self.started + self.timeout - now)
