"""Claims of which nobody knows whether they have run, and the attempts to find out: bounded, and in turn."""

from __future__ import annotations

import asyncio

MOST = 100
"""Attempts for one queue; a claim beyond them is left to its lease."""


class Doubts:
    """The attempts under way, by queue. One at a time goes on the way, so that an outage meets no crowd."""

    def __init__(self) -> None:
        self._attempts: dict[str, set[asyncio.Task[None]]] = {}
        self._turns: dict[str, asyncio.Lock] = {}

    def has_room(self, queue: str) -> bool:
        """Whether one more may be tried."""
        return len(self._attempts.get(queue, ())) < MOST

    def add(self, queue: str, attempt: asyncio.Task[None]) -> None:
        """One more is under way until it ends."""
        self._attempts.setdefault(queue, set()).add(attempt)
        attempt.add_done_callback(lambda _: self._ended(queue, attempt))

    def turn(self, queue: str) -> asyncio.Lock:
        """Held by the attempt whose turn it is."""
        return self._turns.setdefault(queue, asyncio.Lock())

    async def settled(self, queue: str) -> None:
        """Waits for the end of those that are under way now."""
        if attempts := set(self._attempts.get(queue, ())):
            await asyncio.wait(attempts)

    async def leave(self) -> None:
        """Ends all attempts: what is not known by now is left to its lease."""
        attempts = {attempt for own in self._attempts.values() for attempt in own}
        for attempt in attempts:
            attempt.cancel()
        if attempts:
            await asyncio.wait(attempts)

    def _ended(self, queue: str, attempt: asyncio.Task[None]) -> None:
        own = self._attempts[queue]
        own.discard(attempt)
        if not own:
            del self._attempts[queue]
            self._turns.pop(queue, None)  # an attempt that was ended before it began has asked for none
