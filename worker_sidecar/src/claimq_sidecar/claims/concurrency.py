"""How many items the app may have in hand at once, and who gets a place next: no clock, no task of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Turn:
    """One claim's turn. ``places``: for how many items it has room once ``given`` is set; 1 to ``most``."""

    most: int
    places: int = 0
    given: asyncio.Event = field(default_factory=asyncio.Event)


class Concurrency:
    """As many places as the app may have items in hand. A claim asks for a turn, and claims no more than it is given.

    Turns are given in the order of asking: the first one waits for a single place and then gets what is free, so that
    no claim for many waits longer than one for few. A turn keeps its places until it is left; what was claimed then
    counts as ``in_hand``.
    """

    def __init__(self, limit: int | None, in_hand: Callable[[], int]) -> None:
        self._limit = limit
        self._in_hand = in_hand
        self._given = 0
        self._line: dict[Turn, None] = {}

    @property
    def limit(self) -> int | None:
        """The number of places; None: no limit."""
        return self._limit

    @property
    def waiting(self) -> int:
        """Claims that wait for a place."""
        return len(self._line)

    def free(self, most: int) -> int:
        """Free places, ``most`` at most; 0 too while a session took over more than there may be."""
        if self._limit is None:
            return most
        return max(0, min(most, self._limit - self._given - self._in_hand()))

    def ask(self, most: int) -> Turn:
        """A turn for up to ``most`` items (1 or more). Whoever asks leaves it in the end, given or not."""
        turn = Turn(most)
        self._line[turn] = None
        self.look()
        return turn

    def leave(self, turn: Turn) -> None:
        """The claim is over: what it got is in hand by now, and the rest of its places is for the next."""
        self._line.pop(turn, None)
        self._given -= turn.places
        turn.places = 0
        self.look()

    def look(self) -> None:
        """Gives turns while places are free. To be called when something may be in hand no more."""
        while self._line:
            turn = next(iter(self._line))
            places = self.free(turn.most)
            if places == 0:
                return
            del self._line[turn]
            turn.places = places
            self._given += places
            turn.given.set()
