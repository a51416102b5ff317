"""Renews the leases of claims in flight, in batches."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from claimq.concurrency.notify import Notifier
from claimq.consuming.engine.claims_in_flight import ClaimsInFlight
from claimq.errors import ClaimqError, StoreUnavailable
from claimq.model import Outcome, Verdict

_RENEWALS_PER_LEASE = 3
_RETRY_SECONDS = 0.5
"""The pause after an outage. Fixed and short: when the server is back, holders have a third of a lease, at most ten
seconds, to renew. The library retries each renewal with backoff."""
_log = logging.getLogger("claimq.consuming")


class Renewer:
    """Renews each lease of a session's claim three times before it would end."""

    def __init__(
        self,
        in_flight: ClaimsInFlight,
        call: Callable[[Sequence[str]], Awaitable[list[Outcome]]],
        *,
        lease: Callable[[float | None, float], float | None],
        lost: Callable[[list[str]], object],
        note: Callable[[ClaimqError | None], object] = lambda _: None,
    ) -> None:
        """``call`` renews. ``lease``: the length of a lease, from its end by the server's clock and our time of the
        call. ``lost`` is called with tokens that the server reports as lost; ``note`` with the error of a renewal in
        :meth:`run`, or None after one without an error."""
        self._in_flight = in_flight
        self._call = call
        self._lease = lease
        self._lost = lost
        self._note = note
        self._period: float | None = None
        self._sooner = asyncio.Event()
        self._has_defect = False
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
                has_responded = await self._renew_all()

    async def _renew_all(self) -> bool:
        """Renews all leases; returns false if the server did not respond."""
        tokens = self._in_flight.to_renew(asyncio.get_running_loop().time())
        try:
            if tokens:
                await self.renew(tokens)
        except ClaimqError as error:
            self._note(error)
            return not isinstance(error, StoreUnavailable)
        except Exception:  # noqa: BLE001 - the leases of items in progress depend on this loop
            if not self._has_defect:
                _log.exception("cannot renew leases")
            self._has_defect = True
            return False
        self._has_defect = False
        if tokens:
            self._note(None)
        self.answered.notify()
        return True

    async def renew(self, tokens: Sequence[str]) -> list[Outcome]:
        """Renews these leases now. Raises what ``call`` raises."""
        requested_at = asyncio.get_running_loop().time()
        outcomes = await self._call(tokens)
        if lost := [outcome.token for outcome in outcomes if outcome.verdict is Verdict.LOST]:
            self._lost(lost)
        if renewed := [outcome for outcome in outcomes if outcome.verdict is Verdict.RENEWED]:
            lease = self._lease(renewed[0].lease_until, requested_at)
            self._in_flight.renewed([outcome.token for outcome in renewed], requested_at, lease)
        return outcomes
