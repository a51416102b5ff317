"""consume(): a program that works without a sidecar."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from claimq import arguments
from claimq.arguments import Duration, optional_seconds, seconds
from claimq.errors import StoreUnavailable
from claimq.model import Claim, Outcome, Verdict
from claimq.queue.claiming import Claiming
from claimq.queue.handling import Handler, call_handler, handler_frames
from claimq.queue.lease_keeper import LeaseKeeper
from claimq.queue.token_groups import BATCH

_log = logging.getLogger(__name__)

_LOOK_FOR_STOP = 0.05
_NAMED = 5


class OnFailure(StrEnum):
    """What becomes of an item whose handler raised: requeued by policy, straight to failed, or dropped."""

    REQUEUE = "requeue"
    FAIL = "fail"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class Consumed:
    """What a consume did: items done, failed attempts, claims that were lost while their handler ran, and why
    it ended: max_items, max_seconds, empty, stop, SIGINT or SIGTERM."""

    done: int = 0
    failed: int = 0
    lost: int = 0
    stopped_by: str = ""


@dataclass(slots=True)
class _Run:
    """One consume under way."""

    queue: Claiming
    handler: Handler
    chunk: int
    max_items: int | None
    return_when_empty: bool
    process_all: bool
    pause: float
    die_on_error: bool
    on_failure: OnFailure
    keeper: LeaseKeeper
    threads: ThreadPoolExecutor
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    total: Consumed = field(default_factory=Consumed)
    taken: int = 0
    asking: int = 0
    working: int = 0
    in_doubt: int = 0
    error: BaseException | None = None
    not_begun: list[deque[Claim]] = field(default_factory=list[deque[Claim]])
    giving_back: asyncio.Task[None] | None = None
    _last_giving: asyncio.Task[None] | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def end(self, why: str) -> None:
        """No loop claims any more; what is in hand is finished, and what was not begun goes back at once."""
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
        self.tell()

    def tell(self) -> None:
        """Something changed that an idle loop may wait for."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def loop(self) -> None:
        """Claims a chunk and works through it, again and again, until there is a reason to end."""
        while not self.stop.is_set():
            left = self.chunk if self.max_items is None else min(self.chunk, self.max_items - self.taken)
            if left <= 0:
                if not self.asking:
                    return  # all that may be claimed is in somebody's hands
                await self._changed.wait()
                continue
            claims = await self._claim(left)
            if claims is None:
                await self._until_known()
            elif claims:
                await self._work_through(claims)
                if self.pause and not self.stop.is_set():
                    await _wait(self.stop, self.pause)
            elif self.return_when_empty and not self.stop.is_set():
                if not self.working and not self.in_doubt:
                    return
                await self._changed.wait()  # a handler that runs may still enqueue or fail something

    async def _until_known(self) -> None:
        """After a claim without an answer: until it is known what became of it. It may hold all the items there are, so
        that the queue would look empty."""
        self.in_doubt += 1
        try:
            await asyncio.gather(_wait(self.stop, 1.0), self._stopped_or(self.queue.withdrawn()))
        finally:
            self.in_doubt -= 1
            self.tell()

    async def _stopped_or(self, work: Coroutine[Any, Any, None]) -> None:
        """Waits for work, or for a stop, which cancels it."""
        tasks = {asyncio.ensure_future(work), asyncio.ensure_future(self.stop.wait())}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()

    async def _claim(self, count: int) -> list[Claim] | None:
        """Claims; None if the server did not answer, which is not the same as an empty queue."""
        self.taken += count
        self.asking += 1
        got = 0
        try:
            claims = await self._claim_until_stop(count, wait=0 if self.return_when_empty else 1.0)
            got = len(claims or ())
            return claims
        finally:
            self.taken -= count - got
            self.asking -= 1
            self.tell()

    async def _claim_until_stop(self, count: int, wait: float) -> list[Claim] | None:
        """Claims; a stop ends the wait at once."""
        claiming = asyncio.ensure_future(self.queue.claim(count, wait=wait))
        claiming.add_done_callback(lambda done: done.cancelled() or done.exception())  # it may be left alone
        stopping = asyncio.ensure_future(self.stop.wait())
        try:
            await asyncio.wait({claiming, stopping}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            if not claiming.cancel() and claiming.exception() is None:
                await asyncio.shield(self._begin_to_give_back(claiming.result()))  # it was done just now
            raise
        finally:
            stopping.cancel()
        if not claiming.done():
            claiming.cancel()  # which gives back what it may have got
            await asyncio.wait({claiming})
        try:
            return [] if claiming.cancelled() else claiming.result()
        except StoreUnavailable as error:
            if self.queue.is_closed:
                raise
            _log.warning("claiming from %s: %s", self.queue.name, error)
            return None

    async def _work_through(self, claims: list[Claim]) -> None:
        """Handles claims with their leases renewed; those that were not finished go back to the head."""
        if self.stop.is_set():
            await asyncio.shield(self._begin_to_give_back(claims))
            return
        waiting = deque([] if self.process_all else claims)
        in_hand = claims if self.process_all else []
        self.keeper.hold(claims)
        self.not_begun.append(waiting)
        self.working += 1
        try:
            while in_hand or waiting:
                in_hand = in_hand or [waiting.popleft()]
                if not await self._handle(in_hand):
                    break
                in_hand = []
        finally:
            self.working -= 1
            self.not_begun.remove(waiting)
            if rest := [*in_hand, *waiting]:
                await asyncio.shield(self._begin_to_give_back(rest))
            self.tell()

    def _begin_to_give_back(self, claims: list[Claim]) -> asyncio.Task[None]:
        """Uncounted and in order; goes on also when this is cancelled.

        What is given back later was claimed before what was given back first (it was in hand), so it goes before it.
        """
        self.keeper.let_go(claims)
        first = self._last_giving

        async def giving() -> None:
            if first is not None:
                await asyncio.wait({first})
            try:
                await self.queue.unclaim(claims)
            except StoreUnavailable as error:
                _log.warning("%d claims are left to their leases: %s", len(claims), error)

        self._last_giving = self.queue.in_background(giving())
        return self._last_giving

    async def _handle(self, claims: Sequence[Claim]) -> bool:
        """Runs the handler on claims (one, or the whole chunk) and says what became of them; false if the handler
        wants the program to end."""
        argument = [claim.item for claim in claims] if self.process_all else claims[0].item
        error, interrupted = await call_handler(self.handler, argument, self.threads)
        if isinstance(error, SystemExit | KeyboardInterrupt):
            self.error = error
            self.end("exit")
            return False
        if error is not None:
            named = ", ".join(claim.item.id for claim in claims[:_NAMED])
            _log.error(
                "the handler failed on %d of %s: %s", len(claims), self.queue.name, named, exc_info=error
            )
        if error is None:
            outcomes = await self._settle(lambda: self.queue.done(claims))
        elif self.on_failure is OnFailure.DROP:
            dropped = f"{type(error).__name__}: {error}"
            outcomes = await self._settle(lambda: self.queue.drop(claims, dropped))
        else:
            text, permanent = f"{type(error).__name__}: {error}", self.on_failure is OnFailure.FAIL
            detail = handler_frames(error)
            outcomes = await self._settle(
                lambda: self.queue.fail(claims, text, permanent=permanent, detail=detail)
            )
        self.keeper.let_go(claims)
        self._count(claims, outcomes, failed=error is not None)
        if error is not None and self.die_on_error:
            self.error = self.error or error
            self.end("die_on_error")
        if interrupted:
            raise asyncio.CancelledError
        return True

    async def _settle(self, verdict: Callable[[], Awaitable[list[Outcome]]]) -> list[Outcome]:
        """Tells a verdict, through an outage of any length unless a stop is wanted: then the leases decide."""
        while True:
            try:
                return await verdict()
            except StoreUnavailable as error:
                _log.warning("a verdict could not be told: %s", error)
                if self.stop.is_set():
                    return []
                if self.queue.is_closed:  # by its owner: no outage, and it will not end
                    raise
                await _wait(self.stop, 1.0)

    def _count(self, claims: Sequence[Claim], outcomes: list[Outcome], *, failed: bool) -> None:
        kept = sum(outcome.verdict is not Verdict.LOST for outcome in outcomes)
        total = replace(self.total, lost=self.total.lost + len(claims) - kept)
        self.total = (
            replace(total, failed=total.failed + kept) if failed else replace(total, done=total.done + kept)
        )


class Consuming(Claiming):
    """A loop of claim, handle, done for programs that use the library directly."""

    async def consume(
        self,
        handler: Handler,
        *,
        concurrency: int = 1,
        chunk: int = 1,
        max_items: int | None = None,
        max_seconds: Duration | None = None,
        return_when_empty: bool = False,
        process_all: bool = False,
        pause: Duration = 0.0,
        die_on_error: bool = False,
        on_failure: OnFailure | str = OnFailure.REQUEUE,
        handle_signals: bool = True,
        stop: asyncio.Event | threading.Event | None = None,
    ) -> Consumed:
        """Claims items and calls ``handler(item)`` for each, ``concurrency`` loops at once, until something
        ends it.

        ``handler`` is a coroutine function, or a plain function (run in a thread). It returning is *done*, it
        raising is *fail* with the exception's class and text, or what ``on_failure`` says: "requeue" (by
        policy), "fail" (straight to failed), "drop". The exception is logged, and its last frames are kept with the
        item (``error_detail``). ``chunk`` items are claimed at once; with
        ``process_all`` the handler gets the list of them in one call. Leases are renewed while handlers run.

        Ends: when ``max_items`` have been claimed and finished; when main is empty and no handler runs
        (``return_when_empty``); after ``max_seconds``, at the first error (``die_on_error``, which then raises
        it), when ``stop`` is set, and on SIGINT or SIGTERM unless ``handle_signals`` is False: then the items whose
        handlers run are finished, and what was claimed and not begun goes back to the head, uncounted. A
        cancellation interrupts coroutines, waits for plain functions, and gives back the same way. ``pause``:
        seconds between chunks.

        Outages of the server are waited out; a lease that ran out meanwhile counts in ``lost``. Raises
        StoreMisused, and StoreUnavailable if the server is closed under it. If the process dies, the leases decide.
        """
        arguments.count("concurrency", concurrency, least=1)
        arguments.count("chunk", chunk, least=1)
        if max_items is not None:
            arguments.count("max_items", max_items)
        limit, between = optional_seconds("max_seconds", max_seconds), seconds("pause", pause)
        keeper = LeaseKeeper(self)
        threads = ThreadPoolExecutor(concurrency, thread_name_prefix="claimq-handler")
        run = _Run(
            self, handler, min(chunk, BATCH), max_items, return_when_empty, process_all, between, die_on_error,
            OnFailure(on_failure), keeper, threads,
        )  # fmt: skip
        await self._consume(run, concurrency, limit, stop, handle_signals=handle_signals)
        if run.error is not None:
            raise run.error
        if run.total.stopped_by:
            return run.total
        ended = max_items is not None and run.taken >= max_items
        return replace(run.total, stopped_by="max_items" if ended else "empty")

    async def _consume(
        self,
        run: _Run,
        concurrency: int,
        max_seconds: float | None,
        stop: asyncio.Event | threading.Event | None,
        *,
        handle_signals: bool,
    ) -> None:
        loop = asyncio.get_running_loop()
        installed = _install_signals(run) if handle_signals else []
        timer = None if max_seconds is None else loop.call_later(max_seconds, run.end, "max_seconds")
        beside = [asyncio.ensure_future(run.keeper.run())]
        if stop is not None:
            beside.append(asyncio.ensure_future(_end_with(stop, run)))
        try:
            await _all_or_first_error([run.loop() for _ in range(concurrency)])
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            if timer is not None:
                timer.cancel()
            for number in installed:
                loop.remove_signal_handler(number)
            run.threads.shutdown(wait=False)
            if run.giving_back is not None:
                await asyncio.shield(run.giving_back)


async def _end_with(stop: asyncio.Event | threading.Event, run: _Run) -> None:
    if isinstance(stop, asyncio.Event):
        await stop.wait()
    else:  # of another thread; to wait for it would stop this one
        while not stop.is_set():  # noqa: ASYNC110 - the event is not of this loop, which therefore cannot wait for it
            await asyncio.sleep(_LOOK_FOR_STOP)
    run.end("stop")


async def _all_or_first_error(works: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Waits for all; after an error or a cancellation the others are cancelled and waited for too."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def _install_signals(run: _Run) -> list[signal.Signals]:
    loop = asyncio.get_running_loop()
    installed: list[signal.Signals] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, run.end, number.name)
            installed.append(number)
        except (
            NotImplementedError,
            RuntimeError,
            ValueError,
        ):  # not the main thread: its owner decides when to stop
            break
    return installed


async def _wait(stop: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return
