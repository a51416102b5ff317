"""Claims for the loops of one run of ``consume``, fetched ahead by at most one and a half chunks."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain

from claimq.concurrency.notify import first_of, unless
from claimq.consuming.claims_of_run import ClaimsOfRun
from claimq.consuming.engine.chunk_size import LONGEST_WAIT, ChunkSize
from claimq.consuming.engine.settler import RETRY_SECONDS
from claimq.consuming.options import Options
from claimq.errors import ClaimqError, StoreUnavailable
from claimq.model import Claim
from claimq.queue.claiming import IDLE_POLL, Claimed
from claimq.queue.token_groups import BATCH

_log = logging.getLogger("claimq.consuming")


class ClaimsAhead:
    """Claims items with one call at a time: the next chunk when half of the last one is left, or with a chunk of one
    an item for each idle loop. So at most one and a half chunks are claimed that no handler has begun with. Without a
    chunk of the caller's its size follows the handlers, and claims that they do not reach soon go back; in a queue
    with a rate nothing is claimed ahead.

    An item that has crashed a worker before comes alone, and nothing is fetched ahead while it is in progress: if it
    crashes this process too, that counts only for items whose handlers run.
    """

    def __init__(self, claims: ClaimsOfRun, options: Options) -> None:
        self.waiting: deque[Claim] = deque()
        """Claims that no handler has begun with. Threads take some, so it changes only under the lock."""
        self._lock = threading.Lock()
        self.taken = 0
        self.no_claims_because = "empty"
        self._claims = claims
        self._options = options
        self._chunk = options.chunk or 1
        self._loop = asyncio.get_running_loop()
        is_fixed = options.chunk is not None or options.is_in_chunks
        self._adaptive = None if is_fixed else ChunkSize(self._loop.time())
        self._added_count = 0
        """Claims that were ever added to ``waiting``."""
        self._unreached = asyncio.Event()
        """Set when claims that wait go back."""
        self._timer: asyncio.TimerHandle | None = None
        self._idle = 0
        self._was_empty = False
        self._has_rate = False
        self._is_held_back = False
        self._is_over = False
        self._arrived = asyncio.Event()
        self._claiming: asyncio.Future[Claimed] | None = None

    async def following(self) -> Sequence[Claim]:
        """The next claim, or with ``process_all`` the next chunk; empty when there will be none."""
        while True:
            if self._options.process_all and (claims := self._take_all()):
                return claims
            if (claim := self._take(self._claims.changed.notify)) is not None:
                return (claim,)
            if self._is_over:
                return ()
            await self._wait_idle()

    def following_now(self) -> Claim | None:
        """The next claim, if one waits that a handler may begin with at once. For threads."""
        return self._take(
            lambda: self._loop.call_soon_threadsafe(self._claims.changed.notify), may_be_suspect=False
        )

    def _take(self, notify: Callable[[], object], *, may_be_suspect: bool = True) -> Claim | None:
        """The first claim that waits. ``notify`` is called when the next chunk is due."""
        with self._lock:
            if not self.waiting or (self.waiting[0].item.crash_count and not may_be_suspect):
                return None
            if self._adaptive is not None:
                self._adaptive.note_begun()
            claim = self.waiting.popleft()
            is_due = len(self.waiting) in (self._claim_at, 0)
        if is_due:
            notify()
        return claim

    def _take_all(self) -> list[Claim]:
        with self._lock:
            claims = list(self.waiting)
            self.waiting.clear()
        return claims

    @property
    def _claim_at(self) -> int:
        """The next chunk is claimed when so many claims are left."""
        return 0 if self._options.is_in_chunks else self._chunk // 2

    async def _wait_idle(self) -> None:
        self._idle += 1
        self._claims.changed.notify()
        try:
            await self._arrived.wait()
        finally:
            self._idle -= 1

    def end(self) -> list[Claim]:
        """Ends the claiming; returns the claims that no handler has begun with."""
        claims = self._take_all()
        if self._claiming is not None:
            self._claiming.cancel()  # which gives back what it may have claimed
        self._end_waits()
        return claims

    def _end_waits(self) -> None:
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        self._arrived.set()
        self._claims.changed.notify()

    async def fetch(self) -> None:
        """Claims what the loops need, until there is a reason to end."""
        try:
            while not self._claims.stop.is_set():
                if self._unreached.is_set():
                    await self._wait_for_unreached()
                    continue
                # Claims that go back are to be claimed again, so this waits until none can.
                if self.taken == self._options.max_items and (self._adaptive is None or not self.waiting):
                    return
                before = self._claims.changed.version
                if not (count := self._room()):
                    await self._claims.changed.since(before)
                    continue
                nothing_in_flight = not self._claims.in_flight
                claimed = await self._claim(count)
                self._is_held_back = claimed is not None and claimed.is_held_back
                if claimed is None:
                    await self._recovery(RETRY_SECONDS)
                elif claimed.claims:
                    self._was_empty = False
                    self._has_rate = claimed.has_rate
                    self._add(claimed.claims)
                elif self._unreached.is_set() or claimed.is_held_back:
                    continue  # the claim was ended: the queue need not be empty
                elif self._options.return_when_empty and not self._claims.stop.is_set():
                    self.no_claims_because = "paused" if claimed.paused else "empty"
                    if nothing_in_flight:
                        return
                    self._was_empty = True
                    await self._claims.changed.since(before)  # a handler may still enqueue or fail an item
        finally:
            self._end_waits()

    def _room(self) -> int:
        """How many items to claim now."""
        idle, there = self._idle, len(self.waiting)
        if there > self._claim_at or (self._was_empty and not idle):
            return 0
        if self._adaptive is not None and (idle or self._chunk > 1):
            self._chunk = 1 if self._has_rate else self._adaptive.next_size(self._loop.time())
        if self._chunk > 1 and not (self._options.is_in_chunks or self._claims.suspects):
            count = max(self._chunk, idle - there)
        elif there or not idle:
            count = 0
        else:
            count = self._chunk if self._options.is_in_chunks else idle
        remaining = BATCH if self._options.max_items is None else self._options.max_items - self.taken
        return min(count, remaining, BATCH)

    def _add(self, claims: list[Claim]) -> None:
        self._claims.take(claims)
        self.taken += len(claims)
        if self._claims.stop.is_set():
            self._claims.give_back(claims, "stopped")
            return
        with self._lock:
            self.waiting.extend(claims)
        self._added_count += len(claims)
        self._look_again()
        arrived, self._arrived = self._arrived, asyncio.Event()
        arrived.set()

    def _look_again(self) -> None:
        if self._adaptive is not None and self._timer is None and self.waiting:
            self._timer = self._loop.call_later(LONGEST_WAIT, self._look, self._added_count)

    def _look(self, added_before: int) -> None:
        """If claims that wait waited at the last look too, ends the present claim and returns those. The handlers have
        become slow, and other workers may be free."""
        self._timer = None
        if self._added_count - len(self.waiting) >= added_before:
            self._look_again()
        else:
            self.give_back_unbegun()

    def give_back_unbegun(self) -> None:
        """Gives back the claims that wait. No claim is made before they are back: later items would come first, or the
        queue would look empty."""
        self._give_back_waiting()
        self._unreached.set()
        if self._claiming is not None:
            self._claiming.cancel()
        self._claims.changed.notify()

    def _give_back_waiting(self) -> None:
        claims = self._take_all()
        if claims:
            if self._adaptive is not None:
                self._chunk = self._adaptive.reset(self._loop.time())
            self.taken -= len(claims)
            self._claims.give_back(claims, "not_reached")

    async def _wait_for_unreached(self) -> None:
        self._unreached.clear()
        self._give_back_waiting()  # what the claim that was ended has brought
        await self._claims.settler.given_back()
        await self._recovery(0.0)

    async def _recovery(self, pause: float) -> None:
        """After a claim without a reply: waits for its recovery, at least ``pause`` seconds. Until then it may hold all
        items that there are, and the queue would look empty."""
        stop = self._claims.stop
        await first_of(pause, stop)
        await unless(self._claims.calls.lost_claims_recovered(), stop)

    async def _claim(self, count: int) -> Claimed | None:
        """Claims; None if the server did not answer, which is not the same as an empty queue. An end of the run ends
        the wait at once."""
        if self._options.return_when_empty:  # what limits hold back is waited for: main is not empty
            call = self._claims.calls.claim(count, IDLE_POLL if self._is_held_back else 0.0)
        else:  # the room may be another when the wait asks again
            call = self._claims.calls.claim(chain((count,), iter(self._room, None)).__next__, None)
        claiming = self._claiming = asyncio.ensure_future(call)
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
            self._claims.call_failed(error)
            if not isinstance(error, StoreUnavailable) or self._claims.queue.is_closed:
                raise
            _log.warning("cannot claim from %s: %s", self._claims.queue.name, error)
            return None
