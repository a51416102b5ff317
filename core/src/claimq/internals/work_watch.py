"""Watches many queues of one server for work, on few connections. Only claimq's own operator needs it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from claimq.concurrency.background_work import spawn
from claimq.errors import ClaimqError, StoreUnavailable
from claimq.internals.operations import internals
from claimq.queue.queue_part import QueuePart
from claimq.redis_store.clients.opening import LONGEST_BLOCK
from claimq.redis_store.connection import Connection

_GATHER_SECONDS = 0.02
_MOST_QUEUES = 1000


@dataclass(frozen=True, slots=True, eq=False)
class _Watch:
    queue: QueuePart
    on_work: Callable[[], None]


class WorkWatch:
    """The queues of one connection that are watched for work.

    One blocking command waits for the wake tokens of many queues. Every command ends at the next multiple of
    :data:`LONGEST_BLOCK` seconds: those that began at different times are one from then on. On a Redis Cluster each
    queue needs a command of its own, because its keys have a slot of their own.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._watches: dict[str, list[_Watch]] = {}
        """By the queue's name."""
        self._covered: set[str] = set()
        """The names of the queues for which a command waits."""
        self._is_gathering = False
        self._tasks: set[asyncio.Task[None]] = set()

    @contextmanager
    def watch(self, queue: QueuePart, on_work: Callable[[], None]) -> Generator[None]:
        """Calls ``on_work`` at most once in this context: when there may be an item in main, or if the wait for one has
        failed.

        For a queue without workers, on this connection. A wake token that was taken is put back while there is work, so
        that a waiting claim loses one round trip and no item. If this process dies in between, the next reap puts it
        back. It may be a false alarm: look at the queue.
        """
        watch = _Watch(queue, on_work)
        self._watches.setdefault(queue.name, []).append(watch)
        self._cover()
        try:
            yield
        finally:
            watches = self._watches.get(queue.name, [])
            if watch in watches:
                watches.remove(watch)
            if not watches:
                self._watches.pop(queue.name, None)

    def _cover(self) -> None:
        """Starts to wait for the watched queues for which no command waits."""
        if not self._is_gathering and not self._watches.keys() <= self._covered:
            self._is_gathering = True
            self._start(self._gather())

    async def _gather(self) -> None:
        """Gives other watches a moment to share the command."""
        await asyncio.sleep(_GATHER_SECONDS)
        self._is_gathering = False
        queues = [watches[0].queue for name, watches in self._watches.items() if name not in self._covered]
        most = 1 if self._connection.clients.are_for_cluster else _MOST_QUEUES
        for first in range(0, len(queues), most):
            self._start(self._wait(queues[first : first + most]))

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = spawn(work, name="watch for work")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Ends all commands that wait. Call it before the connection is closed."""
        self._watches.clear()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _wait(self, queues: Sequence[QueuePart]) -> None:
        """Waits until one of the queues has work, or for some seconds, and starts the next wait."""
        names = {queue.name for queue in queues}
        self._covered |= names
        try:
            ended = await self._wait_for_one(queues)
        except ClaimqError as error:
            if len(queues) > 1 and not isinstance(error, StoreUnavailable):
                # It concerns one queue: its wake key has another type, or this user may not use it.
                half = len(queues) // 2
                await asyncio.gather(self._wait(queues[:half]), self._wait(queues[half:]))
                return
            ended = names
        finally:
            self._covered -= names
        for name in ended:
            for watch in self._watches.pop(name, ()):
                watch.on_work()
        self._cover()

    async def _wait_for_one(self, queues: Sequence[QueuePart]) -> Iterable[str]:
        """The name of a queue that has work; nothing if the time is over."""
        by_key = {internals(queue).wake_key: queue for queue in queues}
        seconds = LONGEST_BLOCK - asyncio.get_running_loop().time() % LONGEST_BLOCK
        key = await self._connection.wait_for_wake([*by_key], seconds)
        if key is None:
            return ()
        await internals(by_key[key]).wake()
        return (by_key[key].name,)
