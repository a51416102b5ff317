"""Verdicts of one run of ``consume``: those that become ready while a call is in flight share the next call."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

from claimq.errors import ClaimqError, NotReplicated, StoreUnavailable
from claimq.handler_verdicts import Fail, Requeue
from claimq.model import Claim, Outcome, Verdict
from claimq.queue.consume_options import RETRY_SECONDS, Consumed, OnFailure, wait
from claimq.queue.handling import handler_frames
from claimq.queue.in_hand import InHand
from claimq.queue.token_groups import BATCH, MOVES

_log = logging.getLogger("claimq.queue.consuming")

_QUICK, _LONGEST_WAIT = 0.001, 0.01
"""Seconds. Quick handlers run one after another for so long while their verdicts wait for the call in flight."""
_ERRORS = 8
"""Calls with different errors that are made at a time."""

Failed = tuple[Sequence[Claim], BaseException]


class SharedVerdicts:
    """Sends verdicts with one call at a time for all that are done, and up to eight for failures."""

    def __init__(
        self, in_hand: InHand, on_failure: OnFailure, on_defect: Callable[[BaseException], None]
    ) -> None:
        self.total: Consumed = Consumed()
        self._in_hand = in_hand
        self._on_failure = on_failure
        self._on_defect = on_defect
        self._done: list[Claim] = []
        self._failed: list[Failed] = []
        self._sending: asyncio.Task[None] | None = None
        self._sent_at = 0.0
        self._sent = asyncio.Event()
        self._clock = asyncio.get_running_loop().time

    async def add(self, claims: Sequence[Claim], error: BaseException | None, *, begun_at: float) -> None:
        """Adds the verdict on claims that a handler has finished, which began at ``begun_at`` by the loop's clock.

        Returns when the next handler may begin: at once while handlers are quick, else when the verdict is on its way.
        """
        if error is None:
            self._done += claims
        else:
            self._failed.append((claims, error))
        self._in_hand.extend_deadline()
        now = self._clock()
        if self._sending is None:
            self._sending = self._in_hand.calls.in_background(self._send())
            await asyncio.sleep(0)  # it sends this verdict now
        elif now > begun_at + _QUICK or now > self._sent_at + _LONGEST_WAIT or self._waiting_count() >= BATCH:
            await self._sent.wait()

    def _waiting_count(self) -> int:
        return len(self._done) + len(self._failed)

    async def settled(self) -> None:
        """Waits until no verdict is waiting or in flight."""
        while self._sending is not None:
            await asyncio.wait({self._sending})

    async def earlier_settled(self) -> None:
        """Waits for the verdicts that are in flight, and for those that wait to share the next call."""
        for _ in range(2):
            if self._sending is not None:
                await self._sent.wait()

    async def _send(self) -> None:
        try:
            while self._done or self._failed:
                done, self._done = self._done[:BATCH], self._done[BATCH:]
                failed, self._failed = self._failed[:_ERRORS], self._failed[_ERRORS:]
                self._sent_at = self._clock()
                sent, self._sent = self._sent, asyncio.Event()
                sent.set()
                calls = [self._settle(claims, error) for claims, error in failed]
                if done:
                    calls.append(self._settle(done, None))
                await (calls[0] if len(calls) == 1 else asyncio.gather(*calls))
        finally:
            self._sending = None
            self._sent.set()
            self._in_hand.notify()

    async def _settle(self, claims: Sequence[Claim], error: BaseException | None) -> None:
        """Retries a verdict through an outage of any length. After a stop all share one deadline; then the leases
        decide."""
        stop, queue = self._in_hand.stop, self._in_hand.queue
        outcomes: list[Outcome] = []
        left = list(claims)
        # What one call of the server ends: after several, another try would find claims that are settled.
        most = BATCH if error is None else MOVES
        while left:
            try:
                outcomes += await self._in_hand.call_within_deadline(self._verdict, left[:most], error)
                left = left[most:]
            except NotReplicated as unconfirmed:  # they are stored: another call would find the claims lost
                self._in_hand.call_failed(unconfirmed)
                _log.warning("verdicts on claims of %s: %s", queue.name, unconfirmed)
                outcomes += cast("list[Outcome]", unconfirmed.result)
                known = {outcome.token for outcome in outcomes}
                left = [claim for claim in left if claim.token not in known]
            except StoreUnavailable as unavailable:
                self._in_hand.call_failed(unavailable)
                _log.warning("cannot settle claims of %s: %s", queue.name, unavailable)
                if stop.is_set():
                    break
                if queue.is_closed:  # no outage: it will not end
                    self._on_defect(unavailable)
                    break
                await wait(stop, RETRY_SECONDS)
            except Exception as refused:  # noqa: BLE001 - consume raises it when the handlers have ended
                if isinstance(refused, ClaimqError):
                    self._in_hand.call_failed(refused)
                self._on_defect(refused)
                self._in_hand.give_back(left, "refused")
                claims = claims[: len(claims) - len(left)]  # those of earlier calls have their verdicts
                break
        self._in_hand.settled(claims, outcomes)
        self._count(claims, outcomes, error)

    async def _verdict(self, claims: Sequence[Claim], error: BaseException | None) -> list[Outcome]:
        queue = self._in_hand.queue
        if error is None:
            return await queue.done(claims)
        if isinstance(error, Requeue):
            return await queue.requeue(claims, delay=error.delay)
        own = error if isinstance(error, Fail) else None
        text = own.error if own else f"{type(error).__name__}: {error}"
        if self._on_failure is OnFailure.DROP:
            return await queue.drop(claims, text)
        permanent = self._on_failure is OnFailure.FAIL or (own is not None and own.permanent)
        detail = own.detail if own else handler_frames(error)
        delay = own.delay if own else None
        return await queue.fail(claims, text, permanent=permanent, detail=detail, delay=delay)

    def _count(self, claims: Sequence[Claim], outcomes: list[Outcome], error: BaseException | None) -> None:
        kept = sum(outcome.verdict is not Verdict.LOST for outcome in outcomes)
        total = replace(self.total, lost=self.total.lost + len(claims) - kept)
        if error is None:
            self.total = replace(total, done=total.done + kept)
        elif isinstance(error, Requeue):
            self.total = replace(total, requeued=total.requeued + kept)
        else:
            self.total = replace(total, failed=total.failed + kept)
