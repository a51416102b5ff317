"""The server's clock beside the event loop's."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable

from claimq.tokens import calls_of

_LEAST_SECONDS = 0.003
"""No lease counts as shorter, so that its renewals have a pause between them."""


class ServerClock:
    """How far the server's clock is ahead, as the last claim has shown."""

    def __init__(self) -> None:
        self._ahead: float | None = None

    def note(self, claimed_at: float) -> None:
        """Compares the clocks. ``claimed_at``: the server's time of a claim whose response has just arrived."""
        self._ahead = claimed_at - asyncio.get_running_loop().time()

    def lease(
        self,
        lease_until: float | None,
        requested_at: float,
        *,
        shortest: float = _LEAST_SECONDS,
        longest: float = math.inf,
    ) -> float | None:
        """The length of a lease that ends at ``lease_until`` (server time); None if it is unknown.

        ``requested_at``: our time when the renewal was sent. The server's clock may have been set since the last claim,
        so the length is at least ``shortest`` and at most ``longest``.
        """
        if lease_until is None or self._ahead is None:
            return None
        return min(max(lease_until - self._ahead - requested_at, shortest), longest)

    def seconds_since_claims(self, tokens: Iterable[str]) -> list[tuple[float, int]]:
        """How old claims are, by the server's clock: their numbers are when they were made. The seconds of each call
        that claimed, and how many of the tokens are of that call. Empty before the first claim.
        """
        if self._ahead is None:
            return []
        now = asyncio.get_running_loop().time() + self._ahead
        return [(now - number / 1e6, count) for number, count in calls_of(tokens)]
