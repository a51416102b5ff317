"""Verdicts of one run of ``consume``: those on finished items share calls."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, cast

from claimq.concurrency.notify import first_of
from claimq.consuming.claims_of_run import ClaimsOfRun
from claimq.consuming.engine.endings import Ending
from claimq.consuming.engine.shared_done import SharedDone
from claimq.consuming.engine.verdict_calls import call_of
from claimq.consuming.handling import handler_frames
from claimq.consuming.options import RETRY_SECONDS, Consumed, OnFailure
from claimq.errors import ClaimqError, NotReplicated, StoreUnavailable
from claimq.handler_verdicts import Fail, Requeue
from claimq.model import Claim, Outcome, Verdict
from claimq.queue.token_groups import BATCH, MOVES

_log = logging.getLogger("claimq.consuming")

_QUICK, _LONGEST_WAIT = 0.001, 0.01
"""Seconds. Quick handlers run one after another for so long while their verdicts wait for the call in flight."""
_ERRORS = 8
"""Calls for failures, each with an error of its own, that are made at a time."""


class SharedVerdicts:
    """Sends the verdicts on finished items in shared calls (:class:`SharedDone`), and beside them up to eight calls for
    failures."""

    def __init__(
        self, claims: ClaimsOfRun, on_failure: OnFailure, on_defect: Callable[[BaseException], None]
    ) -> None:
        self.total: Consumed = Consumed()
        self._claims = claims
        self._on_failure = on_failure
        self._on_defect = on_defect
        self._unsettled: set[str] = set()
        """Tokens of claims that handlers have finished, until the verdict is stored or given up."""
        self._done: SharedDone[Claim] = SharedDone(self._settle_done, self._in_background)
        self._errors = asyncio.Semaphore(_ERRORS)
        self._sent_at = 0.0
        self._clock = asyncio.get_running_loop().time

    async def add(self, claims: Sequence[Claim], error: BaseException | None, *, begun_at: float) -> None:
        """Adds the verdict on claims that a handler has finished, which began at ``begun_at`` by the loop's clock.

        Returns when the next handler may begin: at once while handlers are quick, else when the verdict is on its way.
        """
        self._unsettled.update([claim.token for claim in claims])
        self._claims.extend_deadline()
        if error is not None:
            sent = asyncio.Event()
            self._in_background(self._settle_failed(claims, error, sent))
            await sent.wait()
            return
        if self._done.add(claims):
            await asyncio.sleep(0)  # it sends this verdict now
            return
        last, now = self._done.added_count, self._clock()
        if now > begun_at + _QUICK or now > self._sent_at + _LONGEST_WAIT or len(self._done.waiting) >= BATCH:
            while self._done.sent_count < last:
                await self._done.sent.wait()

    async def settled(self) -> None:
        """Waits until no verdict is waiting or in flight."""
        await self._wait_for(self._unsettled)

    async def earlier_settled(self) -> None:
        """Waits for the verdicts that are waiting or in flight now."""
        await self._wait_for(self._unsettled.copy())

    async def _wait_for(self, tokens: set[str]) -> None:
        while not tokens.isdisjoint(self._unsettled):
            await self._claims.changed.wait()

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        self._claims.calls.in_background(work).add_done_callback(self._note_end)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        """After a cancellation, with which an event loop ends, nothing waits for verdicts: the leases decide."""
        if task.cancelled():
            self._unsettled.clear()
            self._claims.changed.notify()

    async def _settle_done(self, claims: list[Claim]) -> None:
        self._sent_at = self._clock()
        await self._settle(claims, None)

    async def _settle_failed(
        self, claims: Sequence[Claim], error: BaseException, sent: asyncio.Event
    ) -> None:
        async with self._errors:
            sent.set()
            await self._settle(claims, error)

    async def _settle(self, claims: Sequence[Claim], error: BaseException | None) -> None:
        try:
            await self._settle_in_outages(claims, error)
        finally:
            self._unsettled.difference_update([claim.token for claim in claims])
            self._claims.changed.notify()

    async def _settle_in_outages(self, claims: Sequence[Claim], error: BaseException | None) -> None:
        """Retries a verdict through an outage of any length. After a stop all share one deadline; then the leases
        decide."""
        stop, queue = self._claims.stop, self._claims.queue
        outcomes: list[Outcome] = []
        left = list(claims)
        # What one call of the server ends: after several, another try would find claims that are settled.
        most = BATCH if error is None else MOVES
        while left:
            try:
                verb, ending = self._ending(left[:most], error)
                outcomes += await self._claims.call_within_deadline(call_of(verb, ending), queue)
                left = left[most:]
            except NotReplicated as unconfirmed:  # they are stored: another call would find the claims lost
                self._claims.call_failed(unconfirmed)
                _log.warning("verdicts on claims of %s: %s", queue.name, unconfirmed)
                outcomes += cast("list[Outcome]", unconfirmed.result)
                known = {outcome.token for outcome in outcomes}
                left = [claim for claim in left if claim.token not in known]
            except StoreUnavailable as unavailable:
                self._claims.call_failed(unavailable)
                _log.warning("cannot settle claims of %s: %s", queue.name, unavailable)
                if stop.is_set():
                    break
                if queue.is_closed:  # no outage: it will not end
                    self._on_defect(unavailable)
                    break
                await first_of(RETRY_SECONDS, stop)
            except Exception as refused:  # noqa: BLE001 - consume raises it when the handlers have ended
                if isinstance(refused, ClaimqError):
                    self._claims.call_failed(refused)
                self._on_defect(refused)
                self._claims.give_back(left, "refused")
                claims = claims[: len(claims) - len(left)]  # those of earlier calls have their verdicts
                break
        self._claims.settled(claims, outcomes)
        self._count(claims, outcomes, error)

    def _ending(self, claims: Sequence[Claim], error: BaseException | None) -> tuple[str, Ending[Claim]]:
        """The verb and the words for what the handler raised."""
        if error is None:
            return "done", Ending(claims)
        if isinstance(error, Requeue):
            return "requeue", Ending(claims, delay=error.delay)
        own = error if isinstance(error, Fail) else None
        text = own.error if own else f"{type(error).__name__}: {error}"
        if self._on_failure is OnFailure.DROP:
            return "drop", Ending(claims, text)
        permanent = self._on_failure is OnFailure.FAIL or (own is not None and own.permanent)
        detail = own.detail if own else handler_frames(error)
        return "fail", Ending(claims, text, permanent, detail, own.delay if own else None)

    def _count(self, claims: Sequence[Claim], outcomes: list[Outcome], error: BaseException | None) -> None:
        kept = sum(outcome.verdict is not Verdict.LOST for outcome in outcomes)
        total = replace(self.total, lost=self.total.lost + len(claims) - kept)
        if error is None:
            self.total = replace(total, done=total.done + kept)
        elif isinstance(error, Requeue):
            self.total = replace(total, requeued=total.requeued + kept)
        else:
            self.total = replace(total, failed=total.failed + kept)
