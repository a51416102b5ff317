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
        self._held: dict[str, float] = {}  # token -> length of its lease
        self._ahead = 0.0  # the server's clock less this loop's
        self._changed = asyncio.Event()

    def hold(self, claims: Iterable[Claim]) -> None:
        """Renews these from now on; call it as soon as they are claimed."""
        for claim in claims:
            self._held[claim.token] = _length(claim.lease_until - claim.claimed_at)
            self._ahead = claim.claimed_at - asyncio.get_running_loop().time()
        self._changed.set()

    def let_go(self, claims: Iterable[Claim]) -> None:
        """Renews these no longer."""
        for claim in claims:
            self._held.pop(claim.token, None)

    async def run(self) -> None:
        """Renews until it is cancelled; an outage is tried through, since a lease may outlast it."""
        while True:
            await self._until_due()
            if not (tokens := list(self._held)):
                continue
            try:
                outcomes = await self._queue.renew(tokens)
            except ClaimqError:
                continue
            now = asyncio.get_running_loop().time() + self._ahead
            for outcome in outcomes:
                if outcome.verdict is Verdict.LOST:
                    self._held.pop(outcome.token, None)
                elif outcome.lease_until is not None and outcome.token in self._held:
                    self._held[outcome.token] = _length(outcome.lease_until - now)

    async def _until_due(self) -> None:
        """Waits for a third of the shortest lease that is held; one that comes meanwhile may be shorter."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        while not self._held or loop.time() < started + min(self._held.values()) / _SHARE:
            self._changed.clear()
            if not self._held:
                await self._changed.wait()
                started = loop.time()
                continue
            try:
                async with asyncio.timeout_at(started + min(self._held.values()) / _SHARE):
                    await self._changed.wait()
            except TimeoutError:
                return


def _length(seconds: float) -> float:
    return max(seconds, 0.003)
