"""The total of the calls of one flush or deletion."""

from __future__ import annotations

from dataclasses import dataclass

from claimq.model import State


@dataclass(slots=True)
class Removal:
    """What the calls of a flush or a deletion have removed so far, and whether another call is needed."""

    counts: tuple[int, ...] = (0, 0, 0, 0)
    more: bool = True

    def add(self, reply: bytes) -> None:
        """Adds a script's ``MAIN BUSY DELAYED FAILED MORE``."""
        *removed, more = map(int, reply.split())
        self.counts = tuple(a + b for a, b in zip(self.counts, removed, strict=True))
        self.more = bool(more)

    def by_state(self) -> dict[State, int]:
        """Number of items removed from each state."""
        states = (State.MAIN, State.BUSY, State.DELAYED, State.FAILED)
        return dict(zip(states, self.counts, strict=True))
