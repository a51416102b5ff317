"""Renewing leases while somebody provably works on the items."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from claimq.claiming import Claiming
from claimq.errors import ClaimqError
from claimq.model import Claim, Verdict

_SHARE = 3


class LeaseKeeper:
    """Renews what it was told to hold, three times a lease. A claim that was lost is dropped; its verdict
    will say so."""

    def __init__(self, queue: Claiming) -> None:
        self._queue = queue
        self._held: dict[str, float] = {}
        self._changed = asyncio.Event()

    def hold(self, claims: Iterable[Claim]) -> None:
        """Renews these from now on."""
        for claim in claims:
            self._held[claim.token] = max(claim.lease_until - claim.claimed_at, 0.003)
        self._changed.set()

    def let_go(self, claims: Iterable[Claim]) -> None:
        """Renews these no longer."""
        for claim in claims:
            self._held.pop(claim.token, None)

    async def run(self) -> None:
        """Renews until it is cancelled; an outage is tried through, since a lease may outlast it."""
        while True:
            if not self._held:
                self._changed.clear()
                await self._changed.wait()
            await asyncio.sleep(min(self._held.values(), default=1.0) / _SHARE)
            tokens = list(self._held)
            if not tokens:
                continue
            try:
                outcomes = await self._queue.renew(tokens)
            except ClaimqError:
                continue
            for outcome in outcomes:
                if outcome.verdict is Verdict.LOST:
                    self._held.pop(outcome.token, None)
