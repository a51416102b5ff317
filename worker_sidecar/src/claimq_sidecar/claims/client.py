"""The app's connection, as far as its claims depend on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from claimq_sidecar.claims.last_claim import LastClaim


class Connection:
    """One connection of the app to the sidecar.

    ``handed``: tokens in the last response, until the next request shows that the client has read it. ``on_unread`` is
    called with them when the client disconnects before that. ``pid``: the app's process, 0 if unknown.
    ``set_send_buffer``: sets the size of the connection's send buffer in bytes; the kernel takes twice as much memory.
    """

    def __init__(self) -> None:
        self.gone = asyncio.Event()
        self.flushed = asyncio.Event()
        self.flushed.set()
        self.handed: tuple[str, ...] = ()
        self.on_unread: Callable[[tuple[str, ...]], None] | None = None
        self.pid = 0
        self.last_claim = LastClaim()
        self.set_send_buffer: Callable[[int], None] = lambda _: None

    def hand(self, tokens: tuple[str, ...], on_unread: Callable[[tuple[str, ...]], None]) -> None:
        """These are in the response that is sent now."""
        self.handed, self.on_unread = tokens, on_unread

    def clear_handed(self) -> tuple[str, ...]:
        """The last response is over: the client has read it, or its items go back. Returns their tokens, once."""
        tokens, self.handed = self.handed, ()
        return tokens
