"""Claims items for the app. An item that cannot be given to the app is returned to the head of the queue."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from claimq.concurrency.background_work import spawn
from claimq.concurrency.notify import unless
from claimq.consuming.engine.slots import Slots
from claimq.errors import ClaimqError, NotReplicated, StoreUnavailable
from claimq.internals.next_claims import next_claims
from claimq.internals.operations import internals
from claimq.model import Claim, Item
from claimq.queue.claiming import DEFAULT
from claimq.queue.queue_part import QueuePart
from claimq_process.log_lines import LogEvent
from claimq_sidecar.claims.calls import LONGEST_WAIT, ClaimRequest, default_wait
from claimq_sidecar.claims.give_backs import GiveBacks
from claimq_sidecar.claims.last_claim import LastClaim
from claimq_sidecar.memory import CLAIM_FACTOR, REPLY_FACTOR, Budget, Share
from claimq_sidecar.store import Store

REPLY_BYTES = 4 * 1024 * 1024
"""Approximate limit on the payload bytes of one response."""
CALL_BYTES = 2 * 1024 * 1024
"""Approximate limit on the payload bytes of one call to the server. A single payload may be longer."""
WAITING = 8
"""Claims that wait on the server at the same time. Others wait here, so the app's threads need no more connections."""
_ROOM_SECONDS = 1.0
_SMALLEST_GUESS = 4 * 1024
"""Bytes. No payload is expected to be smaller, so a call asks for at most 512 items."""
_POLL_SECONDS = 1.0
T = TypeVar("T")

_log = logging.getLogger("claimq_sidecar.claimer")


class Claimer:
    """Claims up to the requested number of items, in as many calls as the size of the payloads needs."""

    def __init__(
        self, store: Store, give_backs: GiveBacks, concurrency: Slots, room: int = 64 * CALL_BYTES
    ) -> None:
        """``room``: bytes for the payloads of claims. Claims that wait on the server have as many again."""
        self._store = store
        self.give_back = give_backs.undelivered
        self._concurrency = concurrency
        self._slots = asyncio.Semaphore(WAITING)
        self._room = Budget(room)
        self._waiting_room = Budget(room)
        self._largest: int | None = None
        self._unknown: set[asyncio.Task[None]] = set()

    @property
    def has_unknown_claims(self) -> bool:
        """Whether a call has ended without a reply, so that its claims are unknown."""
        return bool(self._unknown)

    async def claim(
        self, request: ClaimRequest, share: Share, *stops: asyncio.Event, last: LastClaim | None = None
    ) -> list[Claim]:
        """Claims, and waits as long as the request says. If one of the events is set, it returns an empty list.

        ``last``: what the connection's last claim found. If it has just waited in vain, this one goes on with its wait.
        Items that it claimed and cannot deliver go back to the queue. Raises StoreUnavailable or StoreMisused, also
        before the wait is over.
        """
        last = last or LastClaim()
        if request.wait == 0 or not last.is_fresh:
            claims = await self._claim_many(request.most, 0.0, share, last)
            if claims or request.wait == 0:
                return claims
        waiting = asyncio.ensure_future(self._wait(request, share, last))
        try:
            finished = await unless(waiting, *stops)
        except asyncio.CancelledError:
            # It may have just ended.
            if waiting.done() and not waiting.cancelled() and waiting.exception() is None:
                self.give_back(waiting.result(), cause="stopped")
            raise
        if waiting.cancelled():
            return []
        claims = waiting.result()
        if not finished:
            self.give_back(claims, cause="stopped")
            return []
        return claims

    async def _wait(self, request: ClaimRequest, share: Share, last: LastClaim) -> list[Claim]:
        if request.wait is None and default_wait(self._store.claim_wait) == LONGEST_WAIT:
            request = replace(request, wait=LONGEST_WAIT)  # the policy's wait is as long, or longer
        if request.wait is None:
            async with self._slots:
                return await self._claim_many(request.most, None, share, last)
        loop = asyncio.get_running_loop()
        timeout_at = loop.time() + request.wait
        try:
            async with asyncio.timeout_at(timeout_at):
                await self._slots.acquire()
        except TimeoutError:
            return await self._claim_many(request.most, 0.0, share, last)
        try:
            wait = max(timeout_at - loop.time(), 0.0)
            return await self._claim_many(request.most, wait, share, last)
        finally:
            self._slots.release()

    async def _claim_many(self, most: int, wait: float | None, share: Share, last: LastClaim) -> list[Claim]:
        """Calls the server until it has ``most`` items, the queue is empty, or the response is large enough.

        Returns an empty list if there is no memory for the payloads because other claims use it.
        """
        budget, within = self._room, _ROOM_SECONDS
        if wait != 0:
            budget, within = (
                self._waiting_room,
                (self._store.claim_wait or _ROOM_SECONDS) if wait is None else wait,
            )
        if not await share.take(budget, self._call_bytes() * CLAIM_FACTOR, within):
            return []
        requested = min(most, self._batch_size())
        claims = await self._call(requested, wait, last)
        size = self._note_sizes(claims)
        share.shrink(size * REPLY_FACTOR)
        try:
            while len(claims) == requested < most and size < REPLY_BYTES and not claims[-1].item.crash_count:
                if not await share.take(self._room, self._call_bytes() * CLAIM_FACTOR, 0.0):
                    break
                more = min(most - len(claims), self._batch_size())
                batch = await self._call(more, 0.0, last)
                if batch and batch[0].item.crash_count:  # the app gets such an item alone
                    self.give_back(batch, cause="alone")
                    break
                claims += batch
                size += self._note_sizes(batch)
                requested += more
                share.shrink(size * REPLY_FACTOR)
        except ClaimqError:
            return claims
        except asyncio.CancelledError:
            self.give_back(claims, cause="stopped")
            raise
        return claims

    async def _call(self, count: int, wait: float | None, last: LastClaim) -> list[Claim]:
        """One claim call of the library."""
        seconds = DEFAULT if wait is None else wait
        after = None if wait == 0 else last.take()
        call = self._store.call(lambda queue: next_claims(queue).claim_after(after, count, seconds))
        claimed = await self.settled_call(count, call)
        last.note(claimed)
        return claimed.claims

    async def settled_call(self, count: int, call: Awaitable[T]) -> T:
        """Makes a call on the store's queue that claims up to ``count`` items.

        If it ends without a reply, the slots of what it may have claimed stay in use until the server has answered.
        """
        queue, generation = self._store.queue, self._store.generation
        try:
            return await call
        except (asyncio.CancelledError, StoreUnavailable) as error:
            if not isinstance(error, NotReplicated):  # which has a reply
                self._concurrency.take(count)
                settling = self._until_settled(queue, count, generation)
                task = spawn(settling, name="settle a claim without a reply")
                self._unknown.add(task)
                task.add_done_callback(partial(self._end_unknown, count))
            raise

    async def _until_settled(self, queue: QueuePart, count: int, generation: int) -> None:
        withdrawn = asyncio.ensure_future(internals(queue).lost_claims_recovered())
        try:
            while not withdrawn.done() and not self._store.has_replaced(generation):
                await asyncio.wait({withdrawn}, timeout=_POLL_SECONDS)
            if not withdrawn.done():
                _log.warning(LogEvent("unknown_claims_left_to_leases", claims=count))
        finally:
            withdrawn.cancel()

    def _end_unknown(self, count: int, task: asyncio.Task[None]) -> None:
        self._unknown.discard(task)
        self._concurrency.release(count)

    async def room_for(self, most: int, share: Share) -> int:
        """How many items one call may claim now, up to ``most``; reserves the memory for them. 0 if there is none."""
        has_room = await share.take(self._room, self._call_bytes() * CLAIM_FACTOR, 0.0)
        return min(most, self._batch_size()) if has_room else 0

    def note_claims(self, claims: list[Claim], share: Share) -> None:
        """Records what a call has claimed with the memory of :meth:`room_for`."""
        share.shrink(self._note_sizes(claims) * REPLY_FACTOR)

    def _call_bytes(self) -> int:
        """The payload bytes that one call may return: one payload of the maximum size, or several shorter ones."""
        return max(CALL_BYTES, self._store.max_payload or 0, self._largest or 0)

    def _batch_size(self) -> int:
        """The number of items to claim in one call: 1 until the size of the payloads is known."""
        return 1 if self._largest is None else max(1, CALL_BYTES // max(self._largest, _SMALLEST_GUESS))

    def _note_sizes(self, claims: list[Claim]) -> int:
        """Returns the bytes of payloads and headers. Updates the largest size, which halves with smaller ones."""
        if not claims:
            return 0
        sizes = [_size(claim.item) for claim in claims]
        self._largest = max(*sizes, (self._largest or 0) // 2)
        self._store.clock.note(claims[-1].claimed_at)
        return sum(sizes)

    async def settled(self, within: float) -> None:
        """Waits, at most ``within`` seconds, until no claim is unknown."""
        if self._unknown:
            await asyncio.wait(self._unknown, timeout=within)


def _size(item: Item) -> int:
    size = len(item.payload)
    for name, value in item.header_pairs:
        size += len(name) + len(value)
    return size
