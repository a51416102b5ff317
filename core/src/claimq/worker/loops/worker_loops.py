"""The loops of a worker: each takes items, and the end of a block is the item's verdict."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from typing import Any, Generic

from claimq.arguments import Duration, seconds
from claimq.concurrency.stop_signals import ended_by_signals
from claimq.errors import ClaimqError, StoreUnavailable
from claimq.handler_verdicts import attempt_at
from claimq.worker import wire
from claimq.worker.calls import Calls
from claimq.worker.errors import ItemNotSettled, SidecarUnavailable
from claimq.worker.item import AnyItem
from claimq.worker.loops import endings
from claimq.worker.loops.ahead import Ahead, Room
from claimq.worker.loops.loop import Loop
from claimq.worker.loops.shared_claims import SharedClaims
from claimq.worker.loops.verdicts import Verdicts, log_outcome

_log = logging.getLogger("claimq.worker")


class Loops(Generic[AnyItem]):
    """All loops of one worker share requests, and the items that these have claimed ahead."""

    def __init__(self, calls: Calls[AnyItem], block: str) -> None:
        """``block``: ``with item`` or ``async with item``, for messages."""
        self._calls = calls
        self._block = block
        self._running: set[Loop[AnyItem]] = set()
        self._ahead: Ahead[AnyItem] = Ahead(calls.in_flight.discard, self._unclaim)
        self._shared: SharedClaims[AnyItem] = SharedClaims(
            calls.backend, self._claim_through_outages, self._unclaim
        )
        self._verdicts = Verdicts(
            calls.connections, calls.backend, calls.patience, calls.in_flight, self._room, self._received
        )

    async def flush(self) -> None:
        """Waits for the verdicts that are pending now. Not in the child of a fork, where no thread sends them."""
        if self._calls.is_of_this_process:
            await self._verdicts.flush()

    async def close(self) -> None:
        """Ends the background work."""
        await self._verdicts.close()

    def session_opened(self, session: str, permits: str | None) -> None:
        """A session is open. ``permits``: the path of its FIFO, as the sidecar sees it."""
        self._ahead.begin_session(session, self._calls.path, permits)

    def session_ended(self) -> None:
        """It has ended: what was not begun goes back."""
        self._unclaim(self._ahead.end_session())

    def _room(self, loops: int) -> Room | None:
        """What a request may claim now with the verdicts of so many loops."""
        session = None if self._calls.session is None else self._calls.session.present
        if session is None or self._calls.is_over() or not self._running:
            return None
        return self._ahead.room(session, loops, min(len(self._running), wire.MOST))

    def _received(self, reply: dict[str, Any], room: Room) -> Sequence[AnyItem]:
        self._ahead.limit = reply.get("ahead", 0)
        items = self._calls.received(reply, are_begun=False)
        return self._ahead.add(items, room, reply["first"], reply["slots"]) if items else []

    def _unclaim(self, items: Sequence[AnyItem]) -> None:
        with suppress(SidecarUnavailable):  # it is closed: they go back with the session
            for item in items:
                self._verdicts.add("unclaim", item, {})

    def note_claim(self, items: list[AnyItem], wait: float | None) -> list[AnyItem]:
        """Notes who has claimed these; logs once what a claim that waited for nothing may have waited for."""
        me = self._calls.backend.caller()
        for item in items:
            item.claimed_by = me
        if items or wait == 0:
            return items
        held = [one for one in self._calls.in_flight.items() if one.claimed_by == me and not one.in_block]
        if held:
            _log.warning("%s", endings.waits_for_itself(held, block=self._block))
            for item in held:
                item.claimed_by = None
        return items

    async def items(
        self,
        *,
        chunk: int = 1,
        wait: Duration = 5.0,
        handle_signals: bool | None = None,
        settle_elsewhere: bool = False,
    ) -> AsyncGenerator[AnyItem]:
        """Items, one by one; see :meth:`Worker.items`."""
        loop: Loop[AnyItem] = Loop()
        limit = seconds("wait", wait)
        with ended_by_signals(lambda _: self._calls.stopping.stop(), handle_signals):
            if not settle_elsewhere:
                self._running.add(loop)
            try:
                while not self._calls.is_over():
                    item = await self._next(loop, chunk, limit)
                    if item is None:
                        continue
                    item.loop = None if settle_elsewhere else loop
                    yield item
                    loop.note_asked(time.monotonic())
                    self._ahead.end_work(item.token)
                    loop.raise_error()
                    if not settle_elsewhere and endings.is_forgotten(item):
                        await self._calls.settle_quietly("fail", [item], wire.fail_fields(endings.NO_VERDICT))
                        raise ItemNotSettled(endings.message_if_forgotten(item, block=self._block))
            finally:
                self._running.discard(loop)
                if loop.current is not None:
                    self._ahead.end_work(loop.current.token)
                    if not loop.current.is_begun:
                        loop.claimed.insert(0, loop.current)
                    loop.current = None
                await self._calls.backend.shield(self._end_loop(loop))

    async def _next(self, loop: Loop[AnyItem], chunk: int, wait: float) -> AnyItem | None:
        """The loop's next item; None if there is none."""
        self._calls.check_process()
        item = await self._take(loop)
        if item is None and loop.pending is not None:
            await self._wait(loop)  # for a request that has claimed too
            item = await self._take(loop)
        if item is None and not loop.claimed:
            if chunk == 1 and loop in self._running:
                await self._shared.next(loop, wait)
            else:
                loop.claimed += await self._claim_through_outages(chunk, wait)
            if loop in self._running:
                self.note_claim(loop.claimed, wait)
        if item is None and loop.claimed and not self._calls.is_over():
            item = loop.claimed.pop(0)
        loop.current = item
        if item is None:
            return None
        if item.crash_count:
            await self._verdicts.flush()  # it may end this process too
        self._ahead.note_begun()
        return loop.begin(item, time.monotonic())

    async def _wait(self, loop: Loop[AnyItem]) -> None:
        """Waits for the loop's last verdict. Raises its error, or that of an earlier one."""
        pending, loop.pending = loop.pending, None
        if pending is not None:
            with suppress(ClaimqError):  # which the loop has too
                await self._verdicts.wait(pending)
        loop.raise_error()

    async def _take(self, loop: Loop[AnyItem]) -> AnyItem | None:
        """An item that was claimed ahead."""
        if loop not in self._running:
            return None
        if self._ahead.is_next_suspect:
            await self._verdicts.flush()  # before its permit: from then on a crash counts for it
        item = self._ahead.take()
        if item is not None:
            item.claimed_by = self._calls.backend.caller()
        return item

    async def _end_loop(self, loop: Loop[AnyItem]) -> None:
        """Waits for its verdicts, and gives back what it has not begun, unless it is the child of a fork."""
        if not self._calls.is_of_this_process:
            return
        self._shared.leave(loop)
        await self._verdicts.flush()
        rest = [] if self._running else self._ahead.take_all()
        await self._calls.settle_quietly("unclaim", loop.claimed + rest, {})
        if loop.error is not None:
            _log.warning("the verdicts of a loop have no outcome: %s", loop.error)

    async def _claim_through_outages(self, chunk: int, wait: float) -> list[AnyItem]:
        try:
            return await self._calls.claim(chunk, wait, self._calls.stopping)
        except (StoreUnavailable, SidecarUnavailable) as error:
            if not self._calls.is_over():
                if isinstance(error, SidecarUnavailable):
                    raise
                _log.warning("%s", error)
            return []

    async def end_block(self, item: AnyItem, error: BaseException | None) -> bool:
        """The verdict at the end of an item's block, by the exception that leaves it. Returns whether that is not
        raised further.
        """
        item.in_block = False
        if item.outcome is not None:
            return False
        if error is None:
            await self._end("done", item, {})
            return False
        if isinstance(error, asyncio.CancelledError) and not self._calls.backend.is_cancelled():
            error = RuntimeError("something that the work waited for was cancelled (CancelledError)")
        if not isinstance(error, Exception):
            await self._calls.backend.shield(self._end_interrupted(item, error))
            return False
        if isinstance(error, SidecarUnavailable):
            return False
        verb, words, cause = endings.verdict_on(error)
        if verb == "fail":
            _log.warning("item %s failed: %s", attempt_at(item), words["error"], exc_info=cause)
        await self._end(verb, item, words)
        return True

    async def _end(self, verb: str, item: AnyItem, words: dict[str, object]) -> None:
        """The verdict at the end of a block. In a quick loop the same request claims items for the loops."""
        self._calls.check_process()
        loop: Loop[AnyItem] | None = item.loop
        if loop is None or not loop.claims_after(item, self._calls.backend.caller()) or self._calls.is_over():
            (outcome,) = await self._calls.settle(verb, [item], words)
            log_outcome(verb, item, outcome)
        else:
            loop.pending = self._verdicts.add(verb, item, words, claims=True)
            now = time.monotonic()
            if not (self._ahead.limit and loop.is_short(now)) or self._verdicts.is_full:
                await self._wait(loop)
            elif loop.ends_turn(now):
                await self._calls.backend.sleep(0)
        if loop is not None:
            loop.note_end(time.monotonic())

    async def _end_interrupted(self, item: AnyItem, error: BaseException) -> None:
        """A failure where the program ended itself with an error and had not been asked to stop, else uncounted."""
        why = None if self._calls.is_over() else endings.exit_error(error)
        if why is None:
            await self._calls.settle_quietly("unclaim", [item], {})
        else:
            _log.warning("item %s failed: %s", attempt_at(item), why)
            await self._calls.settle_quietly("fail", [item], wire.fail_fields(why))
