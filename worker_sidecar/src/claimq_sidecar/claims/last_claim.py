"""What a connection's last claim found, so that the next one can go on with its wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from claimq.queue.claiming import Claimed

_FRESH_SECONDS: Final = 0.25
"""Longer than a client takes from an empty response to its next claim. A delayed item that another program enqueues in
between leaves no wake token, so the next claim may find it one poll later."""


class LastClaim:
    """A claim right after one that waited in vain would ask the server the same again. It begins with the wait
    instead: an item that arrived in between has left a wake token, which ends the wait at once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._found: Claimed | None = None
        self._found_at = 0.0

    def note(self, found: Claimed) -> None:
        """A claim has ended with this."""
        self._found = found if found.may_be_continued else None
        self._found_at = self._clock()

    def forget(self) -> None:
        """The next claim asks first: the client has done something else."""
        self._found = None

    @property
    def is_fresh(self) -> bool:
        """Whether a claim that begins now goes on with the wait of the last one."""
        return self._found is not None and self._clock() - self._found_at < _FRESH_SECONDS

    def take(self) -> Claimed | None:
        """What the last claim found, once; None if that is unknown or too long ago."""
        found = self._found if self.is_fresh else None
        self.forget()
        return found
