"""Reads that take much memory: few at a time, since tenants choose the servers and so the size of what is read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeVar
from weakref import WeakValueDictionary

from claimq.errors import ClaimqError, ReadTooLarge
from claimq.redis_store.bounded_read import ReadBounds, larger_reads
from claimq.redis_store.faults import is_too_large

T = TypeVar("T")
Turn = Callable[[], AbstractAsyncContextManager[None]]
"""Waits for a turn; reads may be large within it."""
_AT_ONCE = 2


class LargeReads:
    """The turns of large reads: one in a namespace and two in the process at a time."""

    def __init__(self, usual: ReadBounds, larger: ReadBounds, reply: int, longest_wait: float = 45.0) -> None:
        """``usual``: of a read that waits for no other. ``larger`` and ``reply``: of a read in its turn, and the bytes
        of its largest reply. ``longest_wait``: seconds for which a read waits for its turn."""
        self._usual, self._larger, self._reply = usual, larger, reply
        self._longest_wait = longest_wait
        self._process = asyncio.Semaphore(_AT_ONCE)
        self._namespaces: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def turn(self, namespace: str, longest_wait: float | None = None) -> AsyncGenerator[None]:
        """Waits for a turn; reads may be large within it. Raises ReadTooLarge if it does not come in time."""
        lock = self._namespaces.setdefault(namespace, asyncio.Lock())
        wait = self._longest_wait if longest_wait is None else longest_wait
        limit = asyncio.timeout(wait)
        try:
            async with limit, lock, self._process:
                limit.reschedule(None)
                with larger_reads(self._larger, self._reply):
                    yield
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise ReadTooLarge(
                f"the server returned more than {self._usual.size:,} bytes; such queues are read one after the other, "
                f"and the turn of this one has not come for {wait:g} s; check the servers of the other queues of its "
                "namespace, and the number of the queue's workers, claims and bytes"
            ) from error


async def in_turn(turn: Turn | None, read: Callable[[], Awaitable[T]]) -> T:
    """The result of a read, which is repeated in a turn if it is larger than usual. None: there are no turns."""
    try:
        return await read()
    except ClaimqError as error:
        if turn is None or not is_too_large(error):
            raise
    async with turn():
        return await read()
