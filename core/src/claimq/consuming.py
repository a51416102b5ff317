"""consume(): a program that works without a sidecar."""

from __future__ import annotations

import asyncio
import inspect
import signal
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from claimq.claiming import Claiming
from claimq.errors import StoreUnavailable
from claimq.lease_keeper import LeaseKeeper
from claimq.model import Claim


class OnFailure(StrEnum):
    """What becomes of an item whose handler raised: requeued by policy, straight to failed, or dropped."""

    REQUEUE = "requeue"
    FAIL = "fail"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class Consumed:
    """What a consume did: items done, failed attempts, claims that were lost while their handler ran, and why
    it ended."""

    done: int = 0
    failed: int = 0
    lost: int = 0
    stopped_by: str = ""


Handler = Callable[[Any], Awaitable[object] | object]


@dataclass(slots=True)
class _Run:
    """One consume under way."""

    queue: Claiming
    handler: Handler
    chunk: int
    process_all: bool
    on_failure: OnFailure
    die_on_error: bool
    max_items: int | None
    keeper: LeaseKeeper
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    total: Consumed = field(default_factory=Consumed)
    taken: int = 0
    error: BaseException | None = None

    def end(self, why: str) -> None:
        if not self.stop.is_set():
            self.total = replace(self.total, stopped_by=why)
            self.stop.set()

    def allowance(self) -> int:
        """How many items may still be claimed in one go; 0 ends the run."""
        left = self.chunk if self.max_items is None else min(self.chunk, self.max_items - self.taken)
        if left <= 0:
            self.end("max_items")
        return max(left, 0)

    async def handle(self, claims: Sequence[Claim]) -> None:
        """Runs the handler on claims (one, or the whole chunk) with their leases renewed, and says what
        became of them."""
        argument = [claim.item for claim in claims] if self.process_all else claims[0].item
        self.keeper.hold(claims)
        try:
            result = await self._call(argument)
            del result
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is its item's failure, kept with the item
            self.keeper.let_go(claims)
            await self._failed(claims, error)
            return
        except BaseException:
            self.keeper.let_go(claims)
            await asyncio.shield(self.queue.unclaim(claims))
            raise
        self.keeper.let_go(claims)
        outcomes = await self.queue.done(claims)
        lost = sum(outcome.verdict == "lost" for outcome in outcomes)
        self.total = replace(
            self.total, done=self.total.done + len(claims) - lost, lost=self.total.lost + lost
        )

    async def _call(self, argument: object) -> object:
        if inspect.iscoroutinefunction(self.handler):
            return await self.handler(argument)
        result = await asyncio.to_thread(self.handler, argument)
        return await result if inspect.isawaitable(result) else result

    async def _failed(self, claims: Sequence[Claim], error: Exception) -> None:
        text = f"{type(error).__name__}: {error}"
        if self.on_failure is OnFailure.DROP:
            outcomes = await self.queue.done(claims)
        else:
            outcomes = await self.queue.fail(claims, text, permanent=self.on_failure is OnFailure.FAIL)
        lost = sum(outcome.verdict == "lost" for outcome in outcomes)
        self.total = replace(
            self.total, failed=self.total.failed + len(claims) - lost, lost=self.total.lost + lost
        )
        if self.die_on_error:
            self.error = error
            self.end("die_on_error")


class Consuming(Claiming):
    """A loop of claim, handle, done for programs that use the library directly."""

    async def consume(
        self,
        handler: Handler,
        *,
        concurrency: int = 1,
        chunk: int = 1,
        max_items: int | None = None,
        max_seconds: float | None = None,
        return_when_empty: bool = False,
        process_all: bool = False,
        pause: float = 0.0,
        die_on_error: bool = False,
        on_failure: OnFailure | str = OnFailure.REQUEUE,
        handle_signals: bool = True,
    ) -> Consumed:
        """Claims items and calls ``handler(item)`` for each, ``concurrency`` loops at once, until something
        ends it.

        ``handler`` is a coroutine function, or a plain function (run in a thread). It returning is *done*, it
        raising is *fail* with the exception's class and text, or what ``on_failure`` says: "requeue" (by
        policy), "fail" (straight to failed), "drop". ``chunk`` items are claimed at once; with
        ``process_all`` the handler gets the list of them in one call. Leases are renewed while handlers run.
        Ends: after ``max_items``, after ``max_seconds``, when main is empty (``return_when_empty``), at the
        first error (``die_on_error``, which then raises it), on SIGINT or SIGTERM unless ``handle_signals``
        is False: what is in hand is finished, what was claimed and not begun goes back to the head,
        uncounted. ``pause``: seconds between chunks. Outages of the server are waited out.
        """
        if concurrency < 1 or chunk < 1 or (max_items is not None and max_items < 0) or pause < 0:
            raise ValueError("concurrency and chunk are at least 1, max_items and pause at least 0")
        keeper = LeaseKeeper(self)
        run = _Run(self, handler, chunk, process_all, OnFailure(on_failure), die_on_error, max_items, keeper)
        installed = _install_signals(run) if handle_signals else []
        loop = asyncio.get_running_loop()
        timer = loop.call_later(max_seconds, run.end, "max_seconds") if max_seconds is not None else None
        keeping = asyncio.ensure_future(keeper.run())
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(concurrency):
                    group.create_task(self._consume_chunks(run, pause, return_when_empty))
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
            if timer is not None:
                timer.cancel()
            for number in installed:
                loop.remove_signal_handler(number)
        if run.error is not None:
            raise run.error
        return run.total

    async def _consume_chunks(self, run: _Run, pause: float, return_when_empty: bool) -> None:
        while not run.stop.is_set():
            if not (allowed := run.allowance()):
                return
            run.taken += allowed
            claims = await self._claim_until_stop(run, allowed, wait=0 if return_when_empty else 1.0)
            run.taken -= allowed - len(claims)
            if not claims:
                if return_when_empty and not run.stop.is_set():
                    run.end("empty")
                continue
            await self._work_through(run, claims)
            if pause and not run.stop.is_set():
                await _wait(run.stop, pause)

    async def _work_through(self, run: _Run, claims: list[Claim]) -> None:
        if run.process_all:
            await run.handle(claims)
            return
        run.keeper.hold(claims)
        for number, claim in enumerate(claims):
            if run.stop.is_set():
                run.keeper.let_go(claims[number:])
                await self.unclaim(claims[number:])
                return
            await run.handle([claim])

    async def _claim_until_stop(self, run: _Run, count: int, wait: float) -> list[Claim]:
        """Claims; a stop ends the wait at once, and an outage is waited out (the connection pauses between
        its attempts)."""
        claiming = asyncio.ensure_future(self.claim(count, wait=wait))
        stopping = asyncio.ensure_future(run.stop.wait())
        try:
            await asyncio.wait({claiming, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not claiming.done():
                claiming.cancel()
            return await claiming
        except StoreUnavailable:
            await _wait(run.stop, 1.0)
            return []
        except asyncio.CancelledError:
            if not run.stop.is_set():
                claiming.cancel()
                raise
            return []
        finally:
            stopping.cancel()


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
