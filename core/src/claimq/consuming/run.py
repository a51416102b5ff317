"""One run of ``consume``: loops that take claims, call the handler, and settle the claims."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from claimq.concurrency.notify import first_of
from claimq.consuming.claims_ahead import ClaimsAhead
from claimq.consuming.claims_of_run import ClaimsOfRun
from claimq.consuming.handling import (
    Caller,
    as_failure,
    call_in_loop,
    handler_caller,
    is_coroutine_function,
    outcome_of,
)
from claimq.consuming.observing import Reports
from claimq.consuming.options import Consumed, Options, QueueCalls
from claimq.consuming.shared_verdicts import SharedVerdicts
from claimq.consuming.thread_turns import QUICK_SECONDS, FinishedCall, ThreadTurn
from claimq.handler_verdicts import Fail, NotNow, attempt_at
from claimq.model import Claim
from claimq.queue.settling import Settling
from claimq.tracing import Processing, is_active

_log = logging.getLogger("claimq.consuming")

_NAMED = 5


class ConsumeRun:
    """The loops of one run, and what they share."""

    def __init__(
        self,
        queue: Settling,
        calls: QueueCalls,
        options: Options,
        threads: ThreadPoolExecutor,
        reports: Reports,
    ) -> None:
        self.threads = threads
        self._call = handler_caller(options.handler, threads)
        self._in_loop = call_in_loop(options.handler)
        self._takes_turns = not (is_coroutine_function(options.handler) or options.is_in_chunks)
        self.error: BaseException | None = None
        self.claims = ClaimsOfRun(queue, calls, reports)
        self.ahead = ClaimsAhead(self.claims, options)
        self.verdicts = SharedVerdicts(
            self.claims, options.on_failure, self.end_with, self.ahead.give_back_unbegun
        )
        self._options = options
        self._clock = asyncio.get_running_loop().time
        self._stopped_by = ""

    def end(self, why: str) -> None:
        """Ends all loops: running handlers finish, and claims that were not begun go back at once."""
        if self.claims.stop.is_set():
            return
        self._stopped_by = why
        self.claims.settler.end()
        self._end_claiming()

    def end_with(self, error: BaseException) -> None:
        """Ends all loops as :meth:`end`; ``consume`` raises the first such error."""
        self.error = self.error or error
        self.end("error")

    def _end_claiming(self) -> None:
        if rest := self.ahead.end():
            self.claims.give_back(rest, "stopped")

    async def finish(self) -> None:
        """When the loops have ended, however: waits until every claim has its verdict or is back. Without an answer
        of the server the leases decide."""
        settler = self.claims.settler
        settler.end()
        self._end_claiming()
        await settler.settled()
        await settler.given_back()
        self.error = self.error or self.claims.refused

    def result(self) -> Consumed:
        """The totals, once the run has finished."""
        limit = self._options.max_items
        reached = limit is not None and self.ahead.taken >= limit
        why = self._stopped_by or ("max_items" if reached else self.ahead.no_claims_because)
        return replace(self.verdicts.total, stopped_by=why)

    async def loop(self) -> None:
        """Handles one claim (or chunk) after another until there are no more."""
        since_pause = 0
        while claims := await self.ahead.following():
            if claims[0].item.crash_count and not await self._may_begin(claims):
                continue
            if self._takes_turns and not is_active():  # a span is of a single call
                if (work := self._in_loop(claims[0].item)) is None:
                    await self._take_turn(claims[0])
                else:
                    await self._await(claims[0], work)
            else:
                await self._handle(claims, self._call)
            since_pause += len(claims)
            if self._options.pause and (since_pause >= (self._options.chunk or 1) or not self.ahead.waiting):
                await first_of(self._options.pause, self.claims.stop)
                since_pause = 0

    async def _may_begin(self, claims: Sequence[Claim]) -> bool:
        """Waits for the earlier verdicts, since the process may die of these items. If the run ends first, the claims
        go back."""
        may_begin, settler = False, self.claims.settler
        try:
            await settler.settled(settler.in_progress)
            may_begin = not self.claims.stop.is_set()
        finally:
            if not may_begin:
                self.claims.give_back(claims, "stopped")
        return may_begin

    async def _take_turn(self, claim: Claim) -> None:
        """Calls a plain function for this claim, and for others while it is quick. Each verdict is added when its call
        is finished, or after a moment."""
        turn = ThreadTurn(self._options.handler, self.ahead.following_now, self._clock)
        running = asyncio.get_running_loop().run_in_executor(self.threads, turn.run, claim)
        interrupted = False
        while not running.done() or turn.finished:
            try:
                if not running.done():
                    await asyncio.wait({running}, timeout=None if turn.is_over else QUICK_SECONDS)
                turn.is_over = (
                    turn.is_over or not running.done()
                )  # before the look: what ends later is the last
                if calls := turn.take_finished():
                    await self._finish(calls)
            except asyncio.CancelledError:  # a thread cannot be interrupted
                interrupted = turn.is_over = True
        if interrupted:
            raise asyncio.CancelledError

    async def _finish(self, calls: Sequence[FinishedCall]) -> None:
        """Adds the verdicts of finished calls, as :meth:`ThreadTurn.take_finished` returns them."""
        last = calls[-1]
        if (work := last.work) is not None:
            await self._await(last.claim, work)
        else:
            await self._end([call.claim for call in calls], as_failure(last.error), last.begun_at)

    async def _await(self, claim: Claim, work: Awaitable[object]) -> None:
        """Awaits what the handler returned for a claim, and adds the verdict."""
        await self._handle([claim], lambda _: outcome_of(work))

    async def _handle(self, claims: Sequence[Claim], call: Caller) -> None:
        """Runs the handler on claims (one, or the whole chunk) and adds the verdict."""
        argument = [claim.item for claim in claims] if self._options.process_all else claims[0].item
        begun_at = self._clock()
        try:
            with Processing(self.claims.queue.name, [claim.item for claim in claims]) as work:
                error, interrupted = await call(argument)
                work.note(error)
        except BaseException:
            self.claims.give_back(claims, "interrupted")
            raise
        await self._end(claims, error, begun_at)
        if interrupted:
            raise asyncio.CancelledError

    async def _end(self, claims: Sequence[Claim], error: BaseException | None, begun_at: float) -> None:
        """Adds the verdict on claims whose handler has ended."""
        if isinstance(error, SystemExit | KeyboardInterrupt):
            self.claims.give_back(claims, "interrupted")
            self.end_with(error)
            return
        is_failure = error is not None and not isinstance(error, NotNow)
        if error is not None and is_failure:
            self._log_failure(claims, error)
        await self.verdicts.add(claims, error, begun_at=begun_at)
        if error is not None and is_failure and self._options.die_on_error:
            self.end_with(error)

    def _log_failure(self, claims: Sequence[Claim], error: BaseException) -> None:
        named = ", ".join(attempt_at(claim.item) for claim in claims[:_NAMED])
        queue = self.claims.queue.name
        if isinstance(error, Fail):
            cause = error.__cause__
            _log.error("%d of %s failed: %s: %s", len(claims), queue, named, error.error, exc_info=cause)
        else:
            _log.error("the handler failed on %d of %s: %s", len(claims), queue, named, exc_info=error)
