"""Renews the leases of the sessions' claims, in batches."""

from __future__ import annotations

import asyncio
import logging

from claimq.errors import ClaimqError, StoreUnavailable
from claimq.model import Verdict
from claimq_process.log_lines import LogEvent
from claimq_sidecar.claims.in_flight import InFlight
from claimq_sidecar.claims.notify import Notifier
from claimq_sidecar.claims.verdicts import Verdicts

_RENEWALS_PER_LEASE = 3
_RETRY_SECONDS = 0.5
"""The pause after an outage. Fixed and short: when the server is back, holders have a third of a lease, at most ten
seconds, to renew. The library retries each renewal with backoff."""
_log = logging.getLogger("claimq_sidecar.renewer")


class Renewer:
    """Renews each lease three times before it would end. Claims that the server reports as lost leave the set."""

    def __init__(self, in_flight: InFlight, verdicts: Verdicts) -> None:
        self._in_flight = in_flight
        self._verdicts = verdicts
        self._period: float | None = None
        self._sooner = asyncio.Event()
        self.answered = Notifier()
        """Notifies when the server has answered a renewal of all leases, or there are none."""

    def note_lease(self, lease: float) -> None:
        """A session has a claim with a lease of this length from now on."""
        if self._period is None or lease / _RENEWALS_PER_LEASE < self._period:
            self._sooner.set()

    async def run(self) -> None:
        """Renews until it is cancelled, also after outages: the server gives holders time to renew then."""
        has_responded = True
        while True:
            lease = self._in_flight.shortest_lease()
            self._period = None if lease is None else lease / _RENEWALS_PER_LEASE
            pause = self._period
            if pause is not None and not has_responded:
                pause = min(pause, _RETRY_SECONDS)
            try:
                async with asyncio.timeout(pause):
                    await self._sooner.wait()
                self._sooner.clear()
            except TimeoutError:
                has_responded = await self._renew()

    async def _renew(self) -> bool:
        """Renews all leases; returns false if the server did not respond."""
        tokens = self._in_flight.to_renew(asyncio.get_running_loop().time())
        if not tokens:
            self.answered.notify()
            return True
        try:
            outcomes = await self._verdicts.renew(tokens)
        except StoreUnavailable:
            return False
        except ClaimqError:
            return True
        self.answered.notify()
        lost = sum(outcome.verdict is Verdict.LOST for outcome in outcomes)
        if lost:
            _log.warning(LogEvent("claims_lost", claims=lost))
        return True
