"""Verdicts of one run of ``consume``: those on finished items share calls."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from claimq.consuming.claims_of_run import ClaimsOfRun, without
from claimq.consuming.engine.endings import Ending
from claimq.consuming.engine.shared_done import SharedDone
from claimq.consuming.engine.verdict_calls import call_of
from claimq.consuming.handling import handler_frames
from claimq.consuming.options import Consumed, OnFailure
from claimq.errors import ClaimqError, StoreUnavailable
from claimq.handler_verdicts import Fail, Later, NotNow, attempt_at, closes, next_attempt
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
        self,
        claims: ClaimsOfRun,
        on_failure: OnFailure,
        on_defect: Callable[[BaseException], None],
        on_closing: Callable[[], None],
    ) -> None:
        """``on_closing`` is called when a verdict has closed something."""
        self.total: Consumed = Consumed()
        self._claims = claims
        self._on_failure = on_failure
        self._on_defect = on_defect
        self._on_closing = on_closing
        self._settler = claims.settler
        self._done: SharedDone[Claim] = SharedDone(self._settle_done, self._in_background)
        self._errors = asyncio.Semaphore(_ERRORS)
        self._sent_at = 0.0
        self._clock = asyncio.get_running_loop().time

    async def add(self, claims: Sequence[Claim], error: BaseException | None, *, begun_at: float) -> None:
        """Adds the verdict on claims that a handler has finished, which began at ``begun_at`` by the loop's clock.

        Returns when the next handler may begin: at once while handlers are quick, else when the verdict is on its way.
        """
        self._settler.begin([claim.token for claim in claims])
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

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        self._claims.calls.in_background(work).add_done_callback(self._note_end)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        """After a cancellation, with which an event loop ends, nothing waits for verdicts: the leases decide."""
        if task.cancelled():
            self._settler.finish(self._settler.in_progress)

    async def _settle_done(self, claims: list[Claim]) -> None:
        self._sent_at = self._clock()
        await self._settle(claims, None)

    async def _settle_failed(
        self, claims: Sequence[Claim], error: BaseException, sent: asyncio.Event
    ) -> None:
        async with self._errors:
            if not closes(error):  # else no handler begins before what waits is back
                sent.set()
            try:
                await self._settle(claims, error)
            finally:
                sent.set()

    async def _settle(self, claims: Sequence[Claim], error: BaseException | None) -> None:
        """Ends claims through an outage of any length. If the run ends in one, the leases decide."""
        tokens = [claim.token for claim in claims]
        outcomes: list[Outcome] = []
        rest = list(claims)
        # What one call of the server ends: after several, another try would find claims that are settled.
        most = BATCH if error is None else MOVES
        try:
            while rest:
                verb, ending = self._ending(rest[:most], error)
                call = partial(call_of(verb, ending), self._claims.queue)
                outcomes += await self._settler.until_answered(call)
                rest = without(claims, outcomes)  # those of an unconfirmed call may be among them
        except StoreUnavailable as unavailable:
            if self._claims.queue.is_closed and not self._claims.stop.is_set():  # no outage: it will not end
                self._on_defect(unavailable)
        except Exception as refused:  # noqa: BLE001 - consume raises it when the handlers have ended
            if isinstance(refused, ClaimqError):
                self._claims.call_failed(refused)
            self._on_defect(refused)
            self._claims.give_back(rest, "refused")
            claims = claims[: len(claims) - len(rest)]  # those of earlier calls have their verdicts
        finally:
            self._settler.finish(tokens)
        self._claims.settled(claims, outcomes)
        self._count(claims, outcomes, error)
        if closes(error):
            self._on_closing()
        if error is not None and not isinstance(error, NotNow):
            items = {claim.token: claim.item for claim in claims}
            for outcome in outcomes:
                if after := next_attempt(outcome):
                    _log.info("%s: %s: %s", self._claims.queue.name, attempt_at(items[outcome.token]), after)

    def _ending(self, claims: Sequence[Claim], error: BaseException | None) -> tuple[str, Ending[Claim]]:
        """The verb and the words for what the handler raised."""
        if error is None:
            return "done", Ending(claims)
        if isinstance(error, NotNow):
            return error.verb, Ending(claims, delay=error.delay, close=error.close)
        failure = error if isinstance(error, Fail) else None
        text = failure.error if failure else f"{type(error).__name__}: {error}"
        if self._on_failure is OnFailure.DROP:
            return "drop", Ending(claims, text)
        permanent = self._on_failure is OnFailure.FAIL or (failure is not None and failure.permanent)
        detail = failure.detail if failure else handler_frames(error)
        return "fail", Ending(claims, text, permanent, detail, failure.delay if failure else None)

    def _count(self, claims: Sequence[Claim], outcomes: list[Outcome], error: BaseException | None) -> None:
        count = sum(outcome.verdict is not Verdict.LOST for outcome in outcomes)
        total = replace(self.total, lost=self.total.lost + len(claims) - count)
        if error is None:
            self.total = replace(total, done=total.done + count)
        elif isinstance(error, Later):
            self.total = replace(total, postponed=total.postponed + count)
        elif isinstance(error, NotNow):
            self.total = replace(total, requeued=total.requeued + count)
        else:
            self.total = replace(total, failed=total.failed + count)
