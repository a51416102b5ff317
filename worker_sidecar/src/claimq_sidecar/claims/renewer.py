"""Renewing the leases of what sessions hold, in batches, on a schedule of its own."""

from __future__ import annotations

import asyncio
import logging

from claimq.errors import ClaimqError, StoreUnavailable
from claimq.model import Verdict
from claimq_sidecar.claims.in_flight import InFlight
from claimq_sidecar.claims.verdicts import Verdicts
from claimq_spec.log_lines import LogEvent

_SHARE = 3
_AFTER_FAULT = 0.5
"""After an outage the store gives holders a third of a lease, at most ten seconds, to renew: no whole period may be
left to wait when it answers again."""
_log = logging.getLogger("claimq_sidecar.claims.renewer")


class Renewer:
    """Renews three times a lease. What the store says is lost is dropped; its verdict will say so to the app."""

    def __init__(self, in_flight: InFlight, verdicts: Verdicts) -> None:
        self._in_flight = in_flight
        self._verdicts = verdicts
        self._period: float | None = None
        self._sooner = asyncio.Event()

    def held(self, lease: float) -> None:
        """A session holds a claim with such a lease from now on."""
        if self._period is None or lease / _SHARE < self._period:
            self._sooner.set()

    async def run(self) -> None:
        """Renews until it is cancelled. An outage is tried through: the store gives holders time to renew after it."""
        is_answered = True
        while True:
            lease = self._in_flight.shortest_lease()
            self._period = None if lease is None else lease / _SHARE
            pause = self._period
            if pause is not None and not is_answered:
                pause = min(pause, _AFTER_FAULT)
            try:
                async with asyncio.timeout(pause):
                    await self._sooner.wait()
                self._sooner.clear()
            except TimeoutError:
                is_answered = await self._renew()

    async def _renew(self) -> bool:
        """Whether the store answered, or nothing had to be asked."""
        tokens = self._in_flight.to_renew(asyncio.get_running_loop().time())
        if not tokens:
            return True
        try:
            outcomes = await self._verdicts.renew(tokens)
        except StoreUnavailable:
            return False
        except ClaimqError:
            return True
        lost = sum(outcome.verdict is Verdict.LOST for outcome in outcomes)
        if lost:
            _log.warning(LogEvent("claims_lost", claims=lost))
        return True
