"""Whether the loops of this process ran recently. Pure but for the clock that it is given."""

from __future__ import annotations

from collections.abc import Callable


class Liveness:
    """Loops say that they run, and how long a silence of theirs may last at most."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._beats: dict[str, tuple[float, float]] = {}

    def ran(self, loop: str, *, silent_for: float) -> None:
        """The loop has just run, and will again within ``silent_for`` seconds, or something is wrong with it."""
        self._beats[loop] = (self._clock(), silent_for)

    def ended(self, loop: str) -> None:
        """The loop has ended in good order."""
        self._beats.pop(loop, None)

    def ages(self) -> dict[str, float]:
        """Since when each loop is silent, in seconds."""
        now = self._clock()
        return {loop: now - at for loop, (at, _) in self._beats.items()}

    def silent(self) -> list[str]:
        """The loops that are silent for too long, with the time."""
        now = self._clock()
        return [
            f"{loop}: silent for {now - at:.0f} s, at most {longest:.0f} s are right"
            for loop, (at, longest) in sorted(self._beats.items())
            if now - at > longest
        ]
