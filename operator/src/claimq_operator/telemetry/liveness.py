"""Tracks whether the loops of this process still run. It reads no clock of its own."""

from __future__ import annotations

from collections.abc import Callable


class Liveness:
    """The last heartbeat of each loop, and the time until which the next one is expected. Any thread may call it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._beats: dict[str, tuple[float, float]] = {}

    def beat(self, loop: str, *, timeout: float) -> None:
        """The loop runs now, and calls this again within ``timeout`` seconds unless it is stuck."""
        self._beats[loop] = (self._clock(), timeout)

    def remove(self, loop: str) -> None:
        """The loop has ended as intended."""
        self._beats.pop(loop, None)

    def ages(self) -> dict[str, float]:
        """Seconds since the last heartbeat of each loop."""
        now = self._clock()
        return {loop: now - at for loop, (at, _) in self._beats.copy().items()}

    def stuck(self) -> list[str]:
        """One line for each loop whose heartbeat is overdue."""
        now = self._clock()
        return [
            f"{loop}: no heartbeat for {now - at:.0f} s, expected within {timeout:.0f} s"
            for loop, (at, timeout) in sorted(self._beats.copy().items())
            if now - at > timeout
        ]
