"""The request that arrives at a connection, with limits on the size and the time of its head."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

LONGEST_HEAD = 16 * 1024
"""Bytes that a request line, its headers and its trailers may have together."""
MOST_FIELDS = 100
"""Headers and trailers that a request may have."""
HEAD_SECONDS = 10.0
"""How long a head may take from its first byte to its last."""
_FIELD_BYTES: Final = 200
"""Memory of a header beside its text."""


class HeadTooLarge(ValueError):
    """The parser stops at it."""


class Arrival:
    """A request until it is complete, as the parser reports it."""

    def __init__(self) -> None:
        self.in_head = self.in_message = False
        self.quiet = 0
        """Bytes since the parser last reported anything."""
        self._size = self._fields = 0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Its first byte."""
        self.in_head = self.in_message = True
        self._size = self._fields = self.quiet = 0

    def add(self, size: int, *, fields: int = 0) -> None:
        """A part of the request line, a header or a trailer. Raises HeadTooLarge."""
        self.quiet = 0
        self._size += size
        self._fields += fields
        if self.is_too_large:
            raise HeadTooLarge

    def end_head(self) -> int:
        """The body has limits of its own. Returns how many bytes the head takes."""
        held = self.head_bytes
        self.in_head = False
        self.quiet = 0
        return held

    def end(self) -> None:
        """The body is complete."""
        self.in_message = False
        self.quiet = 0

    @property
    def is_too_large(self) -> bool:
        """Whether the head, or the head with its trailers, exceeds the limits."""
        return self._size > LONGEST_HEAD or self._fields > MOST_FIELDS

    @property
    def head_bytes(self) -> int:
        """Memory of a head that is not complete."""
        return self._size + _FIELD_BYTES * self._fields if self.in_head else 0

    def watch(self, on_late: Callable[[], None]) -> None:
        """Sets the timeout for the rest of a head; ends it if there is none."""
        if not self.in_head:
            self.end_timer()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(HEAD_SECONDS, on_late)

    def end_timer(self) -> None:
        """The connection ends, or the head is complete."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
