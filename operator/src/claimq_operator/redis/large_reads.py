"""Reads that take much memory: few at a time, since tenants choose the servers and so the size of what is read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from claimq.errors import ReadTooLarge
from claimq.redis_store.bounded_read import ReadBounds, larger_reads

SMALL_READ = ReadBounds(rows=20_000, size=256 * 1024, seconds=20.0)
"""Of the maintenance of one queue that waits for no other: some 700 workers need less."""
SMALL_REPLY = 128 * 1024
"""Bytes. The operator reads no items."""
_LARGE_READ = ReadBounds(rows=200_000, size=16 * 1024 * 1024, seconds=20.0)
"""10,000 workers with 10 claims each need less."""
_LARGE_REPLY = 1024 * 1024
"""Bytes. A page of 1,000 workers or 5,000 tokens is smaller."""
_AT_ONCE = 2


class LargeReads:
    """The turns of large reads: one in a namespace and two in the process at a time."""

    def __init__(self, longest_wait: float = 45.0) -> None:
        """``longest_wait``: seconds for which a read waits for its turn."""
        self._longest_wait = longest_wait
        self._process = asyncio.Semaphore(_AT_ONCE)
        self._namespaces: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def turn(self, namespace: str) -> AsyncGenerator[None]:
        """Waits for a turn; reads may be large within it. Raises ReadTooLarge if it does not come in time."""
        lock = self._namespaces.setdefault(namespace, asyncio.Lock())
        limit = asyncio.timeout(self._longest_wait)
        try:
            async with limit, lock, self._process:
                limit.reschedule(None)
                with larger_reads(_LARGE_READ, _LARGE_REPLY):
                    yield
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise ReadTooLarge(
                f"maintenance: the server returned more than {SMALL_READ.size:,} bytes; such queues are read one after "
                f"the other, and the turn of this one has not come for {self._longest_wait:g} s; check the servers of "
                "the other queues of its namespace, and the number of the queue's workers and claims"
            ) from error
