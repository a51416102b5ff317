"""Claims for the loops of one run of ``consume``, fetched ahead by at most one chunk."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence

from claimq.errors import ClaimqError, StoreUnavailable
from claimq.model import Claim
from claimq.queue.claiming import Claimed
from claimq.queue.consume_options import RETRY_SECONDS, Options, wait
from claimq.queue.in_hand import InHand
from claimq.queue.token_groups import BATCH

_log = logging.getLogger("claimq.queue.consuming")


class ClaimsAhead:
    """Claims items with one call at a time: the next chunk when half of the last one is left, or with a chunk of one
    an item for each idle loop.

    An item that has crashed a worker before comes alone, and nothing is fetched ahead while it is in progress: if it
    crashes this process too, that counts only for items whose handlers run.
    """

    def __init__(self, in_hand: InHand, options: Options) -> None:
        self.waiting: deque[Claim] = deque()
        """Claims that no handler has begun with."""
        self.taken = 0
        self.no_claims_because = "empty"
        self._in_hand = in_hand
        self._options = options
        self._fetches_ahead = options.chunk > 1 and not (options.process_all or options.pause)
        self._least = options.chunk // 2 if self._fetches_ahead else 0
        self._idle = 0
        self._was_empty = False
        self._is_over = False
        self._arrived = asyncio.Event()
        self._claiming: asyncio.Future[Claimed] | None = None

    async def following(self) -> Sequence[Claim]:
        """The next claim, or with ``process_all`` the next chunk; empty when there will be none."""
        while not self.waiting:
            if self._is_over:
                return ()
            await self._wait_idle()
        if self._options.process_all:
            claims = list(self.waiting)
            self.waiting.clear()
            return claims
        claim = self.waiting.popleft()
        if len(self.waiting) == self._least:
            self._in_hand.notify()
        return (claim,)

    async def _wait_idle(self) -> None:
        self._idle += 1
        self._in_hand.notify()
        try:
            await self._arrived.wait()
        finally:
            self._idle -= 1

    def end(self) -> list[Claim]:
        """Ends the claiming; returns the claims that no handler has begun with."""
        left = list(self.waiting)
        self.waiting.clear()
        if self._claiming is not None:
            self._claiming.cancel()  # which gives back what it may have claimed
        self._end_waits()
        return left

    def _end_waits(self) -> None:
        self._is_over = True
        self._arrived.set()
        self._in_hand.notify()

    async def fetch(self) -> None:
        """Claims what the loops need, until there is a reason to end."""
        try:
            while not self._in_hand.stop.is_set():
                if self.taken == self._options.max_items:
                    return
                before = self._in_hand.version
                if not (count := self._room()):
                    await self._in_hand.change_since(before)
                    continue
                nothing_in_hand = not self._in_hand.count
                claimed = await self._claim(count)
                if claimed is None:
                    await self._recovery()
                elif claimed.claims:
                    self._was_empty = False
                    self._add(claimed.claims)
                elif self._options.return_when_empty and not self._in_hand.stop.is_set():
                    self.no_claims_because = "paused" if claimed.paused else "empty"
                    if nothing_in_hand:
                        return
                    self._was_empty = True
                    await self._in_hand.change_since(
                        before
                    )  # a running handler may still enqueue or fail an item
        finally:
            self._end_waits()

    def _room(self) -> int:
        """How many items to claim now."""
        chunk, idle, there = self._options.chunk, self._idle, len(self.waiting)
        if self._was_empty and not idle:
            return 0
        if self._fetches_ahead and not self._in_hand.suspects:
            count = max(chunk, idle - there) if there <= self._least else 0
        elif there or not idle:
            count = 0
        elif self._options.process_all or self._options.pause:
            count = chunk
        else:
            count = idle
        left = BATCH if self._options.max_items is None else self._options.max_items - self.taken
        return min(count, left, BATCH)

    def _add(self, claims: list[Claim]) -> None:
        self._in_hand.take(claims)
        self.taken += len(claims)
        if self._in_hand.stop.is_set():
            self._in_hand.give_back(claims, "stopped")
            return
        self.waiting.extend(claims)
        arrived, self._arrived = self._arrived, asyncio.Event()
        arrived.set()

    async def _recovery(self) -> None:
        """After a claim without a reply: waits for its recovery. Until then it may hold all items that there are, and
        the queue would look empty."""
        stop = self._in_hand.stop
        tasks = {
            asyncio.ensure_future(self._in_hand.calls.lost_claims_recovered()),
            asyncio.ensure_future(stop.wait()),
        }
        try:
            await wait(stop, RETRY_SECONDS)
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()

    async def _claim(self, count: int) -> Claimed | None:
        """Claims; None if the server did not answer, which is not the same as an empty queue. An end of the run ends
        the wait at once."""
        seconds = 0.0 if self._options.return_when_empty else 1.0
        claiming = self._claiming = asyncio.ensure_future(self._in_hand.calls.claim(count, seconds))
        claiming.add_done_callback(lambda done: done.cancelled() or done.exception())  # it may not be awaited
        try:
            await asyncio.wait({claiming})
        except asyncio.CancelledError:
            if not claiming.cancel() and claiming.exception() is None:  # it has just ended
                self._add(claiming.result().claims)
            raise
        finally:
            self._claiming = None
        try:
            return Claimed([]) if claiming.cancelled() else claiming.result()
        except ClaimqError as error:
            self._in_hand.call_failed(error)
            if not isinstance(error, StoreUnavailable) or self._in_hand.queue.is_closed:
                raise
            _log.warning("cannot claim from %s: %s", self._in_hand.queue.name, error)
            return None
