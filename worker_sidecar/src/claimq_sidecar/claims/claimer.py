"""Claiming for the app: nothing is claimed that is not handed out at once, or else it goes back to the head."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

from claimq.background_work import in_background
from claimq.errors import ClaimqError, StoreUnavailable
from claimq.model import Claim
from claimq.queue.claiming import DEFAULT
from claimq.queue.reliable_queue import ReliableQueue
from claimq_sidecar.claims.calls import LONGEST_WAIT, ClaimRequest
from claimq_sidecar.claims.notify import Notifier, unless
from claimq_sidecar.memory import CLAIM_FACTOR, REPLY_FACTOR, Budget, Share
from claimq_sidecar.metrics import Metrics
from claimq_sidecar.store import Store
from claimq_spec.log_lines import LogEvent

REPLY_BYTES = 4 * 1024 * 1024
"""Payload bytes of one reply, roughly."""
CALL_BYTES = 2 * 1024 * 1024
"""Payload bytes of one call of the store, roughly, where none is longer."""
WAITING = 8
"""Claims that wait on the server at once; more wait here, in turn, so that the app's threads cost no connections."""
_ROOM_SECONDS = 1.0
_SMALLEST_GUESS = 8 * 1024
_LOOK_SECONDS = 1.0

_log = logging.getLogger("claimq_sidecar.claims.claimer")


class Claimer:
    """Claims up to what is asked, in as many calls as the size of payloads allows."""

    def __init__(
        self, store: Store, metrics: Metrics, changed: Notifier, room: int = 64 * CALL_BYTES
    ) -> None:
        """``room``: bytes that claims may take at once; those that wait on the server may take as many again."""
        self._store = store
        self._metrics = metrics
        self._changed = changed
        self._slots = asyncio.Semaphore(WAITING)
        self._room = Budget(room)
        self._waiting_room = Budget(room)
        self._largest: int | None = None
        self._giving_back: set[asyncio.Task[None]] = set()
        self.returning = 0
        """Claims that were never handed out and are not known to be back yet."""
        self.doubtful = 0
        """Items that calls asked for which are not known to have ended without them."""

    async def claim(self, request: ClaimRequest, share: Share, *stops: asyncio.Event) -> list[Claim]:
        """Claims, and waits as long as the request says unless one of the events happens; empty then. Nothing is lost.

        Raises StoreUnavailable or StoreMisused; a request with a wait has then waited at most for the store's retries.
        """
        claims = await self._take(request.most, 0.0, share)
        if claims or request.wait == 0:
            return claims
        waiting = asyncio.ensure_future(self._wait(request, share))
        finished = await unless(waiting, *stops)
        if waiting.cancelled():
            return []
        claims = waiting.result()
        if not finished:
            self.give_back(claims, cause="stopped")
            return []
        return claims

    async def _wait(self, request: ClaimRequest, share: Share) -> list[Claim]:
        if request.wait is None and self._store.claim_wait is None:  # for ever, as long as a request may
            request = replace(request, wait=LONGEST_WAIT)
        if request.wait is None:
            async with self._slots:
                return await self._take(request.most, None, share)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + request.wait
        try:
            async with asyncio.timeout_at(deadline):
                await self._slots.acquire()
        except TimeoutError:
            return await self._take(request.most, 0.0, share)
        try:
            return await self._take(request.most, max(deadline - loop.time(), 0.0), share)
        finally:
            self._slots.release()

    async def _take(self, most: int, wait: float | None, share: Share) -> list[Claim]:
        """One claim, and more of them while the queue gives all that is asked and the reply is not too large.

        Empty without room for what may come: then others claim, or their replies are not read yet.
        """
        budget, within = self._room, _ROOM_SECONDS
        if wait != 0:
            budget, within = (
                self._waiting_room,
                (self._store.claim_wait or _ROOM_SECONDS) if wait is None else wait,
            )
        if not await share.take(budget, self._call_bytes() * CLAIM_FACTOR, within):
            return []
        asked = min(most, self._chunk())
        claims = await self._ask(asked, wait)
        size = self._note(claims)
        share.shrink(size * REPLY_FACTOR)
        try:
            while len(claims) == asked < most and size < REPLY_BYTES and not claims[-1].item.crash_count:
                if not await share.take(self._room, self._call_bytes() * CLAIM_FACTOR, 0.0):
                    break
                more = min(most - len(claims), self._chunk())
                got = await self._ask(more, 0.0)
                if got and got[0].item.crash_count:  # such an item is handed out alone
                    self.give_back(got, cause="alone")
                    break
                claims += got
                size += self._note(got)
                asked += more
                share.shrink(size * REPLY_FACTOR)
        except ClaimqError:
            return claims
        except asyncio.CancelledError:
            self.give_back(claims, cause="stopped")
            raise
        return claims

    async def _ask(self, count: int, wait: float | None) -> list[Claim]:
        """One call of the library's."""

        async def claim(queue: ReliableQueue) -> list[Claim]:
            generation = self._store.generation
            try:
                return await queue.claim(count, wait=DEFAULT if wait is None else wait)
            except (asyncio.CancelledError, StoreUnavailable):
                self._keep_places(queue, count, generation)
                raise

        return await self._store.call(claim)

    def _keep_places(self, queue: ReliableQueue, count: int, generation: int) -> None:
        """A claim that nobody waits for any more may have run: its places are free when the server has said."""
        self.doubtful += count
        task = in_background(self._until_known(queue, count, generation), name="claims in doubt")
        self._giving_back.add(task)
        task.add_done_callback(self._giving_back.discard)

    async def _until_known(self, queue: ReliableQueue, count: int, generation: int) -> None:
        known = asyncio.ensure_future(queue.withdrawn())
        try:
            while not known.done() and not self._store.has_given_up(generation):
                await asyncio.wait({known}, timeout=_LOOK_SECONDS)
            if not known.done():
                _log.warning(LogEvent("claims_left_to_leases", claims=count))
        finally:
            known.cancel()
            self.doubtful -= count
            self._changed.fire()

    def _call_bytes(self) -> int:
        """What one call may give: the longest payload there can be, or several shorter ones."""
        return max(CALL_BYTES, self._store.max_payload or 0, self._largest or 0)

    def _chunk(self) -> int:
        """How many items one call asks for: a single one until sizes are known."""
        return 1 if self._largest is None else max(1, CALL_BYTES // max(self._largest, _SMALLEST_GUESS))

    def _note(self, claims: list[Claim]) -> int:
        """The bytes in these; remembers the largest, which fades by half with every claim that has none like it."""
        if not claims:
            return 0
        sizes = [len(claim.item.payload) for claim in claims]
        self._largest = max(*sizes, (self._largest or 0) // 2)
        self._store.note_clock(claims[-1].claimed_at)
        return sum(sizes)

    def give_back(self, claims: list[Claim], *, cause: str) -> None:
        """Claims that were never handed out go to the head again, uncounted."""
        if not claims:
            return
        self._metrics.given_back.labels(cause).inc(len(claims))
        self.returning += len(claims)
        task = in_background(self._unclaim(claims), name="unclaim")
        self._giving_back.add(task)
        task.add_done_callback(self._giving_back.discard)

    async def _unclaim(self, claims: list[Claim]) -> None:
        try:
            await self._store.call(lambda queue: queue.unclaim(claims), verdict=True)
        except ClaimqError as error:
            _log.warning(LogEvent("give_back_failed", claims=len(claims), error=error))
        finally:
            self.returning -= len(claims)
            self._changed.fire()

    async def settled(self, within: float) -> None:
        """Waits until what is being given back is back, and what is doubtful is known."""
        if self._giving_back:
            await asyncio.wait(set(self._giving_back), timeout=within)
