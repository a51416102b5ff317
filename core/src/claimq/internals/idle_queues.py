"""Looks at the idle queues of one connection together, so that each needs few passes. Only claimq's own operator needs
it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial

from claimq.concurrency.background_work import run_every, spawn
from claimq.concurrency.backoff import RANDOM
from claimq.errors import ClaimqError
from claimq.internals.several_queues import marks_of_each
from claimq.redis_store.connection import Connection

_NAME = "looks at idle queues"
_TOGETHER = 200
"""Queues whose marks fit into the bounds of one read of the operator."""


class IdleQueue:
    """A queue by its name, and its marks when it was looked at last (None: not since it was made)."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.marks: object = None


class IdleQueues:
    """The queues of one connection that are looked at together, once in each period, while they are watched."""

    def __init__(self, connection: Connection, period: float) -> None:
        """``period``: seconds between two looks."""
        self._connection = connection
        self._period = period
        self._watches: dict[IdleQueue, Callable[[], None]] = {}
        self._looking: asyncio.Task[None] | None = None

    @contextmanager
    def watch(self, queue: IdleQueue, on_change: Callable[[], None]) -> Generator[None]:
        """Within the context, calls ``on_change`` at most once: at a look that finds other marks than the look before.
        After the first look at a queue, and after one that fails, it is called within a period, since the queue may
        have changed between the caller's own read and that look."""
        watch = self._watches[queue] = partial(on_change)
        if self._looking is None:
            self._looking = spawn(self._run(), name=_NAME)
        try:
            yield
        finally:
            if self._watches.get(queue) is watch:
                del self._watches[queue]

    async def close(self) -> None:
        """Ends the looks. Call it before the connection is closed."""
        self._watches.clear()
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    async def _run(self) -> None:
        await asyncio.sleep(self._period)
        await run_every(self._period, self._step, name=_NAME, stop=asyncio.Event())

    async def _step(self) -> bool:
        await self.look()
        return False

    async def look(self) -> None:
        """Looks at all watched queues. A round trip for some hundred of them."""
        queues = [*self._watches]
        for begin in range(0, len(queues), _TOGETHER):
            await self._look_at(queues[begin : begin + _TOGETHER])

    async def _look_at(self, queues: Sequence[IdleQueue]) -> None:
        watches = {queue: self._watches[queue] for queue in queues if queue in self._watches}
        try:
            marks = await marks_of_each(self._connection, [queue.name for queue in watches])
        except ClaimqError:  # a pass reports it
            marks = [None] * len(watches)
        loop = asyncio.get_running_loop()
        for (queue, watch), current in zip(watches.items(), marks, strict=True):
            before, queue.marks = queue.marks, current
            if self._watches.get(queue) is not watch:
                queue.marks = None  # a pass has begun since: it may have read what was before these marks
            elif current is None or before is None:  # this concerns many queues: spread their passes
                loop.call_later(RANDOM.uniform(0, self._period), self._end, queue, watch)
            elif current != before:
                self._end(queue, watch)

    def _end(self, queue: IdleQueue, watch: Callable[[], None]) -> None:
        if self._watches.get(queue) is watch:
            del self._watches[queue]
            watch()
