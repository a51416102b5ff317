"""How much the page reads of a queue: tenants choose the servers, and all reads together must fit into its memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import claimq
from claimq.redis_store.bounded_read import ReadBounds
from claimq_control.large_reads import LargeReads, in_turn
from claimq_web.queues.queues import Queues
from claimq_web.rendering import no_queue
from claimq_web.users.limits import AtOnce, answering
from claimq_web.users.login import Session

T = TypeVar("T")
_ALTOGETHER = 16
_OF_A_QUEUE, _OF_A_USER, _OF_A_NAMESPACE = 2, 4, 8
_SECONDS = 20.0
SMALL_READ = ReadBounds(rows=20_000, size=1024 * 1024, seconds=20.0)
"""Of a read that waits for no other: some 2,500 workers need less."""
SMALL_REPLY = 512 * 1024
"""Bytes. Of many items; a larger one is read in a turn."""
_LARGE_READ = ReadBounds(rows=200_000, size=24 * 1024 * 1024, seconds=20.0)
_LARGE_REPLY = 16 * 1024 * 1024
"""Bytes: of a page of items, or of a single item with its payload."""


def large_reads() -> LargeReads:
    """The turns of large reads of a page."""
    return LargeReads(SMALL_READ, _LARGE_READ, _LARGE_REPLY, longest_wait=30.0)


class LimitedReads:
    """Limits how many requests read a queue, for how long, and how much: its server must not stop the page for
    others."""

    def __init__(self, queues: Queues) -> None:
        self._queues = queues
        self._at_once = AtOnce(_OF_A_QUEUE, _OF_A_USER, _OF_A_NAMESPACE, _ALTOGETHER)
        self.large = large_reads()

    @property
    def altogether(self) -> asyncio.Semaphore:
        """The reads of all queues."""
        return self._at_once.altogether

    async def read(
        self,
        name: str,
        session: Session | None,
        call: Callable[[], Awaitable[T]],
        seconds: float | None = None,
        *,
        existing: claimq.ReliableQueue | None = None,
    ) -> T:
        """The result of a read of a queue; HTTPException if the queue ``existing`` does not exist. A large read is
        repeated in its turn, for which it waits without a slot."""

        async def in_slot() -> T:
            slot = self._at_once.slot(name, session.user if session else "")
            async with answering(name, seconds or _SECONDS), slot:
                await self._queues.check(name)
                if existing is not None and not await existing.exists():
                    raise no_queue(name)
                return await call()

        return await in_turn(partial(self.large.turn, name.partition(".")[0], seconds), in_slot)
