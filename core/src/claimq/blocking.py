"""The same operations for programs without an event loop: each method blocks until its coroutine on a
background thread is done.

    with claimq.blocking.connect("redis://localhost:6379/0") as server:
        queue = server.queue("thumbnails")
        queue.enqueue("cat.png")

Safe to use from many threads. After ``fork`` connect anew in the child (pre-forking servers: connect on first
use).
"""

from __future__ import annotations

import asyncio
import functools
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

import claimq.server
from claimq.model import Enqueued, Located, ServerReport
from claimq.redis_store.settings import RedisSettings
from claimq.reliable_queue import ReliableQueue

P = ParamSpec("P")
R = TypeVar("R")


class _Loop:
    """An event loop on a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._loop.run_forever, name="claimq", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        """The coroutine's result. An interrupt of the calling thread (Ctrl-C) cancels it and waits for its end."""
        if os.getpid() != self._pid:
            work.close()
            raise RuntimeError("this connection was made before a fork; connect anew in the child process")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            if not future.done():
                future.cancel()
            raise

    def stop(self) -> None:
        """Ends the thread. What is still running is left to the leases."""
        if os.getpid() == self._pid and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(timeout=5)


class _Blocking(Generic[P, R]):
    """A coroutine method of ReliableQueue as a blocking method with the same parameters, result and docstring."""

    def __init__(self, method: Callable[Concatenate[ReliableQueue, P], Awaitable[R]]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __get__(self, queue: BlockingQueue, owner: type[BlockingQueue]) -> Callable[P, R]:
        @functools.wraps(self._method)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            async def run() -> R:
                return await self._method(queue.wrapped, *args, **kwargs)

            return queue.loop.run(run())

        return call


class BlockingQueue:
    """A :class:`claimq.ReliableQueue` for synchronous programs; see there for every method."""

    def __init__(self, queue: ReliableQueue, loop: _Loop) -> None:
        self.wrapped = queue
        self.loop = loop
        self.name = queue.name
        self.worker = queue.worker

    enqueue = _Blocking(ReliableQueue.enqueue)
    enqueue_many = _Blocking(ReliableQueue.enqueue_many)
    claim = _Blocking(ReliableQueue.claim)
    done = _Blocking(ReliableQueue.done)
    fail = _Blocking(ReliableQueue.fail)
    requeue = _Blocking(ReliableQueue.requeue)
    unclaim = _Blocking(ReliableQueue.unclaim)
    crash = _Blocking(ReliableQueue.crash)
    renew = _Blocking(ReliableQueue.renew)
    reap = _Blocking(ReliableQueue.reap)
    release_worker = _Blocking(ReliableQueue.release_worker)
    policy = _Blocking(ReliableQueue.policy)
    set_policy = _Blocking(ReliableQueue.set_policy)
    pause = _Blocking(ReliableQueue.pause)
    resume = _Blocking(ReliableQueue.resume)
    requeue_failed = _Blocking(ReliableQueue.requeue_failed)
    requeue_failed_item = _Blocking(ReliableQueue.requeue_failed_item)
    remove_failed = _Blocking(ReliableQueue.remove_failed)
    remove_failed_item = _Blocking(ReliableQueue.remove_failed_item)
    failed_items = _Blocking(ReliableQueue.failed_items)
    failed_item = _Blocking(ReliableQueue.failed_item)
    apply_failed_policy = _Blocking(ReliableQueue.apply_failed_policy)
    snapshot = _Blocking(ReliableQueue.snapshot)
    length = _Blocking(ReliableQueue.length)
    lengths = _Blocking(ReliableQueue.lengths)
    age = _Blocking(ReliableQueue.age)
    stats = _Blocking(ReliableQueue.stats)
    peek = _Blocking(ReliableQueue.peek)
    items = _Blocking(ReliableQueue.items)
    find = _Blocking(ReliableQueue.find)
    workers = _Blocking(ReliableQueue.workers)
    memory_usage = _Blocking(ReliableQueue.memory_usage)
    flush = _Blocking(ReliableQueue.flush)
    consume = _Blocking(ReliableQueue.consume)

    def drain_failed(self, *, chunk: int = 100) -> Iterator[Located]:
        """See :meth:`claimq.ReliableQueue.drain_failed`."""
        items: AsyncIterator[Located] = self.wrapped.drain_failed(chunk=chunk)

        async def following() -> Located | None:
            return await anext(items, None)

        while (located := self.loop.run(following())) is not None:
            yield located


class BlockingServer:
    """A :class:`claimq.Server` for synchronous programs. Use it as a context manager."""

    def __init__(self, server: claimq.server.Server) -> None:
        self._server = server
        self._loop = _Loop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections and ends the background thread."""
        try:
            self._loop.run(self._server.close())
        finally:
            self._loop.stop()

    def queue(self, name: str, *, worker: str | None = None) -> BlockingQueue:
        """See :meth:`claimq.Server.queue`."""
        return BlockingQueue(self._server.queue(name, worker=worker), self._loop)

    def enqueue(self, items: Mapping[str, Iterable[object]]) -> dict[str, Enqueued]:
        """See :meth:`claimq.Server.enqueue`."""
        return self._loop.run(self._server.enqueue(items))

    def ping(self) -> None:
        """See :meth:`claimq.Server.ping`."""
        self._loop.run(self._server.ping())

    def report(self) -> ServerReport:
        """See :meth:`claimq.Server.report`."""
        return self._loop.run(self._server.report())


def connect(url: str | None = None, *, settings: RedisSettings | None = None) -> BlockingServer:
    """A server by URL or settings, for synchronous programs. Nothing is sent before the first call."""
    return BlockingServer(claimq.server.connect(url, settings=settings))
