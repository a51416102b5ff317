"""The claims of one run of ``consume``, from the claim to the verdict."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Sequence
from functools import partial
from typing import Final

from claimq.concurrency.notify import Notifier
from claimq.consuming.engine.claims_in_flight import ClaimsInFlight
from claimq.consuming.engine.renewer import Renewer
from claimq.consuming.engine.server_clock import ServerClock
from claimq.consuming.engine.settler import Settler
from claimq.consuming.engine.slots import Slots
from claimq.consuming.observing import Cause, Reports
from claimq.consuming.options import QueueCalls
from claimq.errors import ClaimqError, NotReplicated, StoreUnavailable
from claimq.model import Claim, Outcome
from claimq.queue.settling import Settling

_log = logging.getLogger("claimq.consuming")
_RUN: Final = "run"
"""The session of its claims: they are renewed until the handler has ended."""


class ClaimsOfRun:
    """Holds the claims in flight, and gives back those that no handler has finished.
    ``reports``: to the observer of the run."""

    def __init__(self, queue: Settling, calls: QueueCalls, reports: Reports) -> None:
        self.queue = queue
        self.calls = calls
        self._report = reports.report
        self.changed = Notifier()
        """Notifies when a claim is in flight no longer, and when a loop begins to wait for one."""
        self.in_flight = ClaimsInFlight(Slots(None, self.changed))
        self._server_clock = ServerClock()
        self.renewer = Renewer(
            self.in_flight,
            queue.renew,
            lease=self._server_clock.lease,
            lost=self._lost,
            note=self._note_renewal,
        )
        self._failed_renewals = 0
        self.settler = Settler(
            self.in_flight,
            calls.in_background,
            call_failed=self._note_unsettled,
            end_timeout=calls.end_timeout,
        )
        self.stop = self.settler.stop
        """Set when the run ends: no handler begins, and running ones finish."""
        self.suspects: set[str] = set()
        """Tokens of those that have crashed a worker before."""
        self.refused: ClaimqError | None = None
        """Why the server has refused to take claims back."""
        self._clock = asyncio.get_running_loop().time

    def take(self, claims: list[Claim]) -> None:
        """Holds claims that have just been made."""
        if claims:
            self._server_clock.note(claims[0].claimed_at)
            self.in_flight.add(claims, _RUN, self._clock())
            self.suspects.update(claim.token for claim in claims if claim.item.crash_count)
            self.renewer.note_lease(claims[0].lease_until - claims[0].claimed_at)
        self._report("claimed", claims)

    def settled(self, claims: Sequence[Claim], outcomes: Sequence[Outcome]) -> None:
        """Holds these no longer: they have a verdict, or without an outcome the server has not answered."""
        self.release(claims)
        if outcomes:
            self._report("settled", outcomes)
        if rest := without(claims, outcomes):
            self._report("given_back", rest, "unanswered")

    def call_failed(self, error: ClaimqError) -> None:
        """Reports that a call failed."""
        self._report("call_failed", error)

    def _note_unsettled(self, error: ClaimqError) -> bool:
        self.call_failed(error)
        what = "unconfirmed verdicts on" if isinstance(error, NotReplicated) else "cannot settle"
        _log.warning("%s claims of %s: %s", what, self.queue.name, error)
        return self.queue.is_closed

    def release(self, claims: Sequence[Claim]) -> None:
        """Holds these no longer: they have a verdict, or are on their way back."""
        tokens = [claim.token for claim in claims]
        self.suspects.difference_update(tokens)
        self.in_flight.remove(tokens)

    def _lost(self, tokens: list[str]) -> None:
        """The handlers of these go on, and their verdicts will be LOST."""
        for token in tokens:
            if token in self.in_flight:
                self.in_flight.adopt(token, None, self._clock(), math.inf)

    def _note_renewal(self, error: ClaimqError | None) -> None:
        failures, self._failed_renewals = self._failed_renewals, 0
        if error is not None:
            self._failed_renewals = failures + 1
            if not failures:
                _log.warning("cannot renew leases on %s: %s", self.queue.name, error)
            self.call_failed(error)
        elif failures:
            _log.info("leases on %s are renewed again after %d failed attempts", self.queue.name, failures)

    def give_back(self, claims: Sequence[Claim], cause: Cause) -> None:
        """Gives claims back uncounted, in the background."""
        tokens = [claim.token for claim in claims]
        self.suspects.difference_update(tokens)
        self._report("given_back", claims, cause)
        self.settler.give_back(tokens, self._unclaim)

    async def _unclaim(self, tokens: list[str]) -> None:
        try:
            await self.settler.until_answered(partial(self.queue.unclaim, tokens))
        except ClaimqError as error:
            _log.warning("cannot give %d claims back; their leases will expire: %s", len(tokens), error)
            if not isinstance(error, StoreUnavailable):
                self.call_failed(error)
                self.refused = error


def without(claims: Sequence[Claim], outcomes: Sequence[Outcome]) -> list[Claim]:
    """The claims that have no outcome."""
    if len(outcomes) == len(claims):
        return []
    tokens = {outcome.token for outcome in outcomes}
    return [claim for claim in claims if claim.token not in tokens]
