"""Renewing the leases of what sessions hold, in batches, on a schedule of its own."""

from __future__ import annotations

import asyncio
import logging

from claimq.errors import ClaimqError
from claimq.model import Verdict
from claimq_sidecar.hands import Hands
from claimq_sidecar.verdicts import Verdicts

_SHARE = 3
_log = logging.getLogger("claimq_sidecar.renewer")


class Renewer:
    """Renews three times a lease. What the store says is lost is dropped; its verdict will say so to the app."""

    def __init__(self, hands: Hands, verdicts: Verdicts) -> None:
        self._hands = hands
        self._verdicts = verdicts
        self._period: float | None = None
        self._sooner = asyncio.Event()

    def held(self, lease: float) -> None:
        """A session holds a claim with such a lease from now on."""
        if self._period is None or lease / _SHARE < self._period:
            self._sooner.set()

    async def run(self) -> None:
        """Renews until it is cancelled. An outage is tried through: the store gives holders time to renew after it."""
        while True:
            lease = self._hands.shortest_lease()
            self._period = None if lease is None else lease / _SHARE
            try:
                async with asyncio.timeout(self._period):
                    await self._sooner.wait()
                self._sooner.clear()
            except TimeoutError:
                await self._renew()

    async def _renew(self) -> None:
        tokens = self._hands.to_renew(asyncio.get_running_loop().time())
        if not tokens:
            return
        try:
            outcomes = await self._verdicts.renew(tokens)
        except ClaimqError:
            return
        lost = sum(outcome.verdict is Verdict.LOST for outcome in outcomes)
        if lost:
            _log.warning("event=claims_lost claims=%d", lost)
