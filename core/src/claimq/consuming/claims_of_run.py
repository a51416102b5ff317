"""The claims of one run of ``consume``, from the claim to the verdict."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, ParamSpec, TypeVar

from claimq.concurrency.notify import Notifier, first_of
from claimq.consuming.engine.claims_in_flight import ClaimsInFlight
from claimq.consuming.engine.renewer import Renewer
from claimq.consuming.engine.server_clock import ServerClock
from claimq.consuming.engine.slots import Slots
from claimq.consuming.observing import Cause, Reports
from claimq.consuming.options import RETRY_SECONDS, QueueCalls
from claimq.errors import ClaimqError, NotReplicated, StoreUnavailable
from claimq.model import Claim, Outcome
from claimq.queue.settling import Settling

_log = logging.getLogger("claimq.consuming")
_RUN: Final = "run"
"""The session of its claims: they are renewed until the handler has ended."""
P = ParamSpec("P")
T = TypeVar("T")


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
        self.stop = asyncio.Event()
        """Set when the run ends: no handler begins, and running ones finish."""
        self.suspects: set[str] = set()
        """Tokens of those that have crashed a worker before."""
        self._last_give_back: asyncio.Task[None] | None = None
        self._clock = asyncio.get_running_loop().time
        self._deadline: float | None = None

    def end(self) -> None:
        """Ends the run: sets ``stop``, and starts the deadline of the calls that are left."""
        if not self.stop.is_set():
            self.stop.set()
            self.extend_deadline()

    def extend_deadline(self) -> None:
        """After the end of the run, starts its deadline again: the server has answered, or a new call is needed."""
        if self.stop.is_set():
            self._deadline = self._clock() + self.calls.end_timeout

    async def call_within_deadline(
        self, call: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Makes a call that ends claims. After the end of the run all such calls share one deadline; a call that misses
        it raises StoreUnavailable."""
        try:
            if self._deadline is not None and self._clock() > self._deadline:
                raise TimeoutError
            async with asyncio.timeout_at(self._deadline):
                result = await call(*args, **kwargs)
        except TimeoutError as error:
            raise StoreUnavailable("the run has ended, and the server has not answered since") from error
        except NotReplicated:
            self.extend_deadline()
            raise
        self.extend_deadline()
        return result

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
        if len(outcomes) < len(claims):
            known = {outcome.token for outcome in outcomes}
            self._report("given_back", [claim for claim in claims if claim.token not in known], "unanswered")

    def call_failed(self, error: ClaimqError) -> None:
        """Reports that a call failed."""
        self._report("call_failed", error)

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

    def give_back(self, claims: list[Claim], cause: Cause) -> asyncio.Task[None]:
        """Gives claims back uncounted and in order, also if the caller is cancelled.

        Give-backs run one after another: a later one holds items that were claimed earlier, which go before the others.
        """
        before = self._last_give_back
        self.release(claims)
        self.extend_deadline()
        self._report("given_back", claims, cause)

        async def give_back() -> None:
            if before is not None:
                await asyncio.wait({before})
            try:
                await self.call_within_deadline(self.queue.unclaim, claims)
            except ClaimqError as error:
                self.call_failed(error)
                if not isinstance(error, StoreUnavailable):
                    raise
                _log.warning("cannot give %d claims back; their leases will expire: %s", len(claims), error)

        self._last_give_back = self.calls.in_background(give_back())
        return self._last_give_back

    async def give_back_held(self, claims: list[Claim], cause: Cause) -> None:
        """Gives claims back, uncounted and in order, while the run goes on. They are held until the server has
        answered, through an outage of any length. If the run ends first, they go back as in :meth:`give_back`."""
        is_held = True
        try:
            while is_held and not self.stop.is_set():
                try:
                    await self.queue.unclaim(claims)
                    is_held = False
                except StoreUnavailable as error:
                    self.call_failed(error)
                    if self.queue.is_closed:
                        raise
                    await first_of(RETRY_SECONDS, self.stop)
        finally:
            if is_held:
                self.give_back(claims, cause)
            else:
                self.release(claims)
                self._report("given_back", claims, cause)

    async def given_back(self) -> None:
        """Waits for the give-backs that have begun."""
        if self._last_give_back is not None:
            await asyncio.shield(self._last_give_back)
