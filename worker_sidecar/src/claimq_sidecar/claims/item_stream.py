"""Items for a stream: claimed as its window and the concurrency limit allow."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from claimq.concurrency.notify import first_of
from claimq.consuming.engine.slots import Slots
from claimq.errors import ClaimqError
from claimq.model import Claim
from claimq_sidecar.claims.calls import ClaimRequest
from claimq_sidecar.memory import Share

USUAL_WINDOW: Final = 100
"""The window of a stream that names none, where the concurrency has no limit."""
MOST_IN_LINE: Final = 250
"""Items in one line: the app works on lines of a large window while others are claimed (docs/decisions/streams.md)."""
_WAIT_SECONDS = 10.0
"""After so long without items a stream goes to the end of the line of waiting claims."""
_RETRY_SECONDS = 0.5
"""The pause after a claim that failed. The library has retried it with backoff."""

Claims = Callable[[ClaimRequest, Share, asyncio.Event], Awaitable[list[Claim]]]
"""Claims for a connection; returns an empty list if the event is set."""


class ItemStream:
    """The items of one stream. At most ``window`` claims of its session are without a verdict."""

    def __init__(self, session: str, window: Slots, claim: Claims, *stops: asyncio.Event) -> None:
        """``stops``: what ends a wait for room in the window."""
        self._session = session
        self._window = window
        self._claim = claim
        self._stops = stops
        self._resized = asyncio.Event()

    def resize(self, window: int) -> None:
        """Changes the window; 0: claims nothing. What a claim in progress gets goes back to the head, uncounted."""
        self._window.resize(window)
        self._resized.set()
        self._resized = asyncio.Event()

    async def next(self, share: Share, *, waits: bool) -> list[Claim]:
        """The next items. Empty when there are none for ten seconds (without ``waits``: at once), after a stop or a
        change of the window, and after a failure of the store. Without room in the window it waits for that.
        """
        resized = self._resized
        slots = self._window.request(MOST_IN_LINE)
        try:
            if not slots.granted.is_set():
                await first_of(None, slots.granted, resized, *self._stops)
            if not slots.slots:
                return []
            request = ClaimRequest(slots.slots, _WAIT_SECONDS if waits else 0.0, self._session)
            return await self._claim(request, share, resized)
        except ClaimqError:  # the store has logged it
            await first_of(_RETRY_SECONDS, *self._stops)
            return []
        finally:
            self._window.finish(slots)
