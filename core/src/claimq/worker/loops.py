"""The loops of a worker: each takes items, and the end of a block is the item's verdict."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import nullcontext
from typing import Any, Generic

from claimq.arguments import Duration, seconds
from claimq.errors import StoreUnavailable
from claimq.worker import endings, wire
from claimq.worker.ahead import Ahead
from claimq.worker.calls import Calls
from claimq.worker.errors import ItemNotSettled, SidecarUnavailable
from claimq.worker.item import AnyItem
from claimq.worker.loop import Loop
from claimq.worker.shared_claims import SharedClaims
from claimq.worker.verdicts import LOST, Room, Verdicts

_log = logging.getLogger("claimq.worker")


class Loops(Generic[AnyItem]):
    """All loops of one worker share requests, and the items that these have claimed ahead."""

    def __init__(self, calls: Calls[AnyItem], block: str) -> None:
        """``block``: ``with item`` or ``async with item``, for messages."""
        self._calls = calls
        self._block = block
        self._running: set[Loop[AnyItem]] = set()
        self._ahead: Ahead[AnyItem] = Ahead()
        self._shared: SharedClaims[AnyItem] = SharedClaims(calls.backend, self._claim_through_outages)
        self._verdicts = Verdicts(
            calls.connections, calls.backend, calls.patience, calls.in_hand, self._room, self._received
        )

    async def flush(self) -> None:
        """Waits for the verdicts that are under way."""
        await self._verdicts.flush()

    async def close(self) -> None:
        """Ends the background work."""
        await self._verdicts.close()

    def session_opened(self, session: str, permits: str | None) -> None:
        """A session is open. ``permits``: the path of its FIFO, as the sidecar sees it."""
        self._ahead.begin_session(session, self._calls.path, permits)

    def session_ended(self) -> None:
        """It has ended: what was not begun goes back."""
        items = self._ahead.end_session()
        self._note_gone()
        for item in items:
            self._verdicts.add("unclaim", item, {})

    def _room(self, loops: int) -> Room | None:
        """What a request may claim now with the verdicts of so many loops."""
        session = None if self._calls.session is None else self._calls.session.present
        if session is None or self._calls.is_over() or not self._running:
            return None
        count = self._ahead.to_claim(session, loops)
        return Room(session, count, len(self._running)) if count else None

    def _received(self, reply: dict[str, Any], session: str) -> Sequence[AnyItem]:
        self._ahead.limit = reply.get("ahead", 0)
        items = self._calls.received(reply)
        for item in items:
            item.is_begun = False
        return self._ahead.add(items, session, reply["first"], reply["slots"]) if items else []

    def _take(self, loop: Loop[AnyItem]) -> AnyItem | None:
        item = self._ahead.take()
        if item is None:
            self._note_gone()
            return None
        item.claimed_by = self._calls.backend.caller()
        self._ahead.note_begun()
        return loop.begin(item, time.monotonic())

    def _note_gone(self) -> None:
        gone, late = self._ahead.gone()
        self._calls.in_hand.discard(gone)
        for item in late:
            self._verdicts.add("unclaim", item, {})

    def note_claim(self, items: list[AnyItem], wait: float | None) -> list[AnyItem]:
        """Notes who has claimed these; logs once what a claim that waited for nothing may have waited for."""
        me = self._calls.backend.caller()
        for item in items:
            item.claimed_by = me
        if items or wait == 0:
            return items
        held = [one for one in self._calls.in_hand.items() if one.claimed_by == me and not one.in_block]
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
        handle_signals: bool = True,
        settle_elsewhere: bool = False,
    ) -> AsyncGenerator[AnyItem]:
        """Items, one by one; see :meth:`Worker.items`."""
        loop: Loop[AnyItem] = Loop()
        limit = seconds("wait", wait)
        with self._calls.stopping.on_signals() if handle_signals else nullcontext():
            self._running.add(loop)
            try:
                while not self._calls.is_over():
                    item = self._take(loop) or await self._following(
                        loop, chunk, limit, settle_elsewhere=settle_elsewhere
                    )
                    if item is None:
                        continue
                    item.loop = None if settle_elsewhere else loop
                    yield item
                    loop.note_asked(time.monotonic())
                    self._ahead.end_work(item.token)
                    if not settle_elsewhere and endings.is_forgotten(item):
                        await self._calls.settle_quietly("fail", [item], wire.fail_fields(endings.NO_VERDICT))
                        raise ItemNotSettled(endings.message_if_forgotten(item, block=self._block))
            finally:
                self._running.discard(loop)
                if loop.current is not None:
                    self._ahead.end_work(loop.current.token)
                    loop.current = None
                await self._calls.backend.shield(self._end_loop(loop))

    async def _following(
        self, loop: Loop[AnyItem], chunk: int, wait: float, *, settle_elsewhere: bool
    ) -> AnyItem | None:
        """The loop's next item, where none waits ahead; None if there is none."""
        if loop.pending is not None:
            pending, loop.pending = loop.pending, None
            await self._verdicts.wait(pending)  # whose request has claimed too
        if loop.error is not None:
            error, loop.error = loop.error, None
            raise error
        if not loop.claimed:
            if (item := self._take(loop)) is not None:
                return item
            if chunk > 1 or settle_elsewhere:
                claimed = await self._claim_through_outages(chunk, wait)
            else:
                shared = await self._shared.next(wait)
                claimed = [] if shared is None else [shared]
            loop.add(claimed if settle_elsewhere else self.note_claim(claimed, wait))
        if not loop.claimed or self._calls.is_over():
            return None
        self._ahead.note_begun()
        return loop.begin(loop.claimed.pop(0), time.monotonic())

    async def _end_loop(self, loop: Loop[AnyItem]) -> None:
        """Waits for its verdicts, and gives back what it has not begun."""
        await self._verdicts.flush()
        rest = [] if self._running else [*self._shared.items, *self._ahead.take_all()]
        await self._calls.settle_quietly("unclaim", loop.claimed + rest, {})
        self._note_gone()
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
        """The verdict at the end of an item's block, by the exception that leaves it; returns whether that is not
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
            _log.warning("item %s failed: %s", item.id, words["error"], exc_info=cause)
        await self._end(verb, item, words)
        return True

    async def _end(self, verb: str, item: AnyItem, words: dict[str, object]) -> None:
        """The verdict at the end of a block. In a quick loop the same request claims items for the loops."""
        self._calls.check_process()
        loop: Loop[AnyItem] | None = item.loop
        if loop is None or not loop.claims_after(item, self._calls.backend.caller()) or self._calls.is_over():
            (outcome,) = await self._calls.settle(verb, [item], words)
            if verb == "done" and outcome.is_lost:
                _log.warning("item %s was lost before it was done: %s", item.id, LOST)
        else:
            loop.pending = self._verdicts.add(verb, item, words, claims=True)
            now = time.monotonic()
            if not (self._ahead.limit and loop.is_short(now)) or self._verdicts.is_full:
                await self._verdicts.wait(loop.pending)
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
            _log.warning("item %s failed: %s", item.id, why)
            await self._calls.settle_quietly("fail", [item], wire.fail_fields(why))
