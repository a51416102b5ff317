"""One run of ``consume``: loops that claim items, call the handler, and settle the claims."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from claimq.errors import StoreUnavailable
from claimq.model import Claim, Outcome, Verdict
from claimq.queue.claiming import Claimed
from claimq.queue.handling import Handler, call_handler, handler_frames
from claimq.queue.lease_keeper import LeaseKeeper
from claimq.queue.settling import Settling

_log = logging.getLogger("claimq.queue.consuming")

_RETRY_SECONDS = 1.0
_NAMED = 5


class OnFailure(StrEnum):
    """Where an item goes whose handler raised: requeued by the policy, straight to failed, or removed."""

    REQUEUE = "requeue"
    FAIL = "fail"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class Consumed:
    """Result of a ``consume``: items done, failed attempts, claims that were lost while their handler ran, and why it
    ended: max_items, max_seconds, empty, paused, stop, SIGINT or SIGTERM."""

    done: int = 0
    failed: int = 0
    lost: int = 0
    stopped_by: str = ""


@dataclass(frozen=True, slots=True)
class Options:
    """Arguments of ``consume``; see there."""

    handler: Handler
    chunk: int
    max_items: int | None
    return_when_empty: bool
    process_all: bool
    pause: float
    die_on_error: bool
    on_failure: OnFailure


@dataclass(frozen=True, slots=True)
class QueueCalls:
    """What a run needs of its queue besides verdicts."""

    claim: Callable[[int, float], Awaitable[Claimed]]
    lost_claims_recovered: Callable[[], Coroutine[Any, Any, None]]
    in_background: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]


@dataclass(slots=True)
class ConsumeRun:
    """The state that the loops of one run share."""

    queue: Settling
    calls: QueueCalls
    options: Options
    keeper: LeaseKeeper
    threads: ThreadPoolExecutor
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    total: Consumed = field(default_factory=Consumed)
    taken: int = 0
    """Items that are claimed or that a claim call under way may claim."""
    claiming: int = 0
    handling: int = 0
    recovering: int = 0
    """Loops that wait for the recovery of a lost claim."""
    error: BaseException | None = None
    not_begun: list[deque[Claim]] = field(default_factory=list[deque[Claim]])
    giving_back: asyncio.Task[None] | None = None
    _last_give_back: asyncio.Task[None] | None = None
    _no_claims_because: str = "empty"
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def end(self, why: str) -> None:
        """Ends all loops: running handlers finish, and claims that were not begun go back at once."""
        if self.stop.is_set():
            return
        self.total = replace(self.total, stopped_by=why)
        self.stop.set()
        rest = sorted(
            (claim for claims in self.not_begun for claim in claims), key=lambda claim: claim.number
        )
        for claims in self.not_begun:
            claims.clear()
        if rest:
            self.giving_back = self._begin_to_give_back(rest)
        self._notify()

    def result(self) -> Consumed:
        """The totals, once all loops have ended."""
        if self.total.stopped_by:
            return self.total
        limit = self.options.max_items
        reached = limit is not None and self.taken >= limit
        return replace(self.total, stopped_by="max_items" if reached else self._no_claims_because)

    def _notify(self) -> None:
        """Wakes idle loops: a count has changed."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def loop(self) -> None:
        """Claims a chunk and handles it, again and again, until there is a reason to end."""
        options = self.options
        while not self.stop.is_set():
            left = options.chunk
            if options.max_items is not None:
                left = min(left, options.max_items - self.taken)
            if left <= 0:
                if not self.claiming:
                    return  # all items that may be claimed are claimed
                await self._changed.wait()
                continue
            claimed = await self._claim(left)
            if claimed is None:
                await self._wait_for_recovery()
            elif claimed.claims:
                await self._work_through(claimed.claims)
                if options.pause and not self.stop.is_set():
                    await wait(self.stop, options.pause)
            elif options.return_when_empty and not self.stop.is_set():
                self._no_claims_because = "paused" if claimed.paused else "empty"
                if not self.handling and not self.recovering:
                    return
                await self._changed.wait()  # a handler that runs may still enqueue or fail an item

    async def _wait_for_recovery(self) -> None:
        """After a claim without a reply: waits for its recovery. Until then it may hold all items that there are, and
        the queue would look empty."""
        self.recovering += 1
        try:
            await asyncio.gather(
                wait(self.stop, _RETRY_SECONDS), self._or_stop(self.calls.lost_claims_recovered())
            )
        finally:
            self.recovering -= 1
            self._notify()

    async def _or_stop(self, work: Coroutine[Any, Any, None]) -> None:
        """Waits for work, or for a stop, which cancels it."""
        tasks = {asyncio.ensure_future(work), asyncio.ensure_future(self.stop.wait())}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()

    async def _claim(self, count: int) -> Claimed | None:
        """Claims; None if the server did not answer, which is not the same as an empty queue."""
        self.taken += count
        self.claiming += 1
        got = 0
        try:
            claimed = await self._claim_or_stop(count, 0.0 if self.options.return_when_empty else 1.0)
            got = len(claimed.claims) if claimed else 0
            return claimed
        finally:
            self.taken -= count - got
            self.claiming -= 1
            self._notify()

    async def _claim_or_stop(self, count: int, seconds: float) -> Claimed | None:
        """Claims; a stop ends the wait at once."""
        claiming = asyncio.ensure_future(self.calls.claim(count, seconds))
        claiming.add_done_callback(lambda done: done.cancelled() or done.exception())  # it may not be awaited
        stopping = asyncio.ensure_future(self.stop.wait())
        try:
            await asyncio.wait({claiming, stopping}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            if not claiming.cancel() and claiming.exception() is None:  # it has just ended
                await asyncio.shield(self._begin_to_give_back(claiming.result().claims))
            raise
        finally:
            stopping.cancel()
        if not claiming.done():
            claiming.cancel()  # which gives back what it may have claimed
            await asyncio.wait({claiming})
        try:
            return Claimed([]) if claiming.cancelled() else claiming.result()
        except StoreUnavailable as error:
            if self.queue.is_closed:
                raise
            _log.warning("cannot claim from %s: %s", self.queue.name, error)
            return None

    async def _work_through(self, claims: list[Claim]) -> None:
        """Handles claims with their leases renewed; those that were not finished go back to the head."""
        if self.stop.is_set():
            await asyncio.shield(self._begin_to_give_back(claims))
            return
        waiting = deque([] if self.options.process_all else claims)
        handled = claims if self.options.process_all else []
        self.keeper.hold(claims)
        self.not_begun.append(waiting)
        self.handling += 1
        try:
            while handled or waiting:
                handled = handled or [waiting.popleft()]
                if not await self._handle(handled):
                    break
                handled = []
        finally:
            self.handling -= 1
            self.not_begun.remove(waiting)
            if rest := [*handled, *waiting]:
                await asyncio.shield(self._begin_to_give_back(rest))
            self._notify()

    def _begin_to_give_back(self, claims: list[Claim]) -> asyncio.Task[None]:
        """Gives claims back uncounted and in order, also if this loop is cancelled.

        Give-backs run one after another: a later one holds items that were claimed earlier, which go before the others.
        """
        self.keeper.release(claims)
        before = self._last_give_back

        async def give_back() -> None:
            if before is not None:
                await asyncio.wait({before})
            try:
                await self.queue.unclaim(claims)
            except StoreUnavailable as error:
                _log.warning("cannot give %d claims back; their leases will expire: %s", len(claims), error)

        self._last_give_back = self.calls.in_background(give_back())
        return self._last_give_back

    async def _handle(self, claims: Sequence[Claim]) -> bool:
        """Runs the handler on claims (one, or the whole chunk) and settles them; False if the handler ends the
        program."""
        argument = [claim.item for claim in claims] if self.options.process_all else claims[0].item
        error, interrupted = await call_handler(self.options.handler, argument, self.threads)
        if isinstance(error, SystemExit | KeyboardInterrupt):
            self.error = error
            self.end("exit")
            return False
        if error is not None:
            named = ", ".join(claim.item.id for claim in claims[:_NAMED])
            _log.error(
                "the handler failed on %d of %s: %s", len(claims), self.queue.name, named, exc_info=error
            )
        outcomes = await self._settle(lambda: self._verdict(claims, error))
        self.keeper.release(claims)
        self._count(claims, outcomes, failed=error is not None)
        if error is not None and self.options.die_on_error:
            self.error = self.error or error
            self.end("die_on_error")
        if interrupted:
            raise asyncio.CancelledError
        return True

    async def _verdict(self, claims: Sequence[Claim], error: BaseException | None) -> list[Outcome]:
        if error is None:
            return await self.queue.done(claims)
        text = f"{type(error).__name__}: {error}"
        if self.options.on_failure is OnFailure.DROP:
            return await self.queue.drop(claims, text)
        permanent = self.options.on_failure is OnFailure.FAIL
        return await self.queue.fail(claims, text, permanent=permanent, detail=handler_frames(error))

    async def _settle(self, verdict: Callable[[], Awaitable[list[Outcome]]]) -> list[Outcome]:
        """Retries a verdict through an outage of any length. After a stop it gives up, and the leases decide."""
        while True:
            try:
                return await verdict()
            except StoreUnavailable as error:
                _log.warning("cannot settle claims of %s: %s", self.queue.name, error)
                if self.stop.is_set():
                    return []
                if self.queue.is_closed:  # no outage: it will not end
                    raise
                await wait(self.stop, _RETRY_SECONDS)

    def _count(self, claims: Sequence[Claim], outcomes: list[Outcome], *, failed: bool) -> None:
        kept = sum(outcome.verdict is not Verdict.LOST for outcome in outcomes)
        total = replace(self.total, lost=self.total.lost + len(claims) - kept)
        self.total = (
            replace(total, failed=total.failed + kept) if failed else replace(total, done=total.done + kept)
        )


async def wait(stop: asyncio.Event, seconds: float) -> None:
    """Waits for the event, at most ``seconds``."""
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return
