"""The operations for synchronous programs: a method blocks until its coroutine has ended on another thread.

    with claimq.blocking.connect("redis://localhost:6379/0") as server:
        queue = server.queue("thumbnails")
        queue.enqueue("cat.png")

Safe to use from many threads. After a fork, connect again in the child (in pre-forking servers: on first use).
"""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

import claimq.server
from claimq.concurrency import without_loop
from claimq.concurrency.background_loop import BackgroundLoop
from claimq.concurrency.stop_signals import ended_by_signals
from claimq.errors import StoreUnavailable
from claimq.model import Enqueued, ServerReport
from claimq.redis_store.callers_connection import CallersConnection
from claimq.redis_store.clients.threaded_client import ThreadedClient
from claimq.redis_store.settings import RedisSettings
from claimq.reliable_queue import ReliableQueue

P = ParamSpec("P")
_is_finalizing = sys.is_finalizing  # modules may be emptied before the last __del__
R = TypeVar("R")


class _Blocking(Generic[P, R]):
    """A coroutine method of ReliableQueue as a blocking method with the same parameters, result and docstring."""

    def __init__(self, method: Callable[Concatenate[ReliableQueue, P], Coroutine[Any, Any, R]]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __get__(self, queue: Any, owner: type[BlockingQueue]) -> Callable[P, R]:
        call = self._made_for(queue)
        if queue is not None:
            setattr(queue, self._method.__name__, call)  # which is found first from now on
        return call

    def _made_for(self, queue: BlockingQueue) -> Callable[P, R]:
        @functools.wraps(self._method)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return queue.loop.run(lambda: self._method(queue.wrapped, *args, **kwargs))

        return call


class _InCallersThread(_Blocking[P, R]):
    """A coroutine method that only runs scripts: it runs in the thread of its caller, on a socket of its own, unless
    another call uses that (see :class:`claimq.redis_store.callers_connection.CallersConnection`)."""

    def _made_for(self, queue: BlockingQueue) -> Callable[P, R]:
        plain = super()._made_for(queue)

        @functools.wraps(self._method)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            here, connection = queue.in_callers_thread
            if connection.is_free:
                return without_loop.run(self._method(here, *args, **kwargs))
            return plain(*args, **kwargs)

        return call


class _BlockingConsume(_Blocking[P, R]):
    """consume() with signal handlers for SIGINT and SIGTERM, which arrive in the main thread, not in the loop's."""

    def _made_for(self, queue: BlockingQueue) -> Callable[P, R]:
        plain = super()._made_for(queue)

        @functools.wraps(self._method)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            names: list[str] = []
            options: dict[str, Any] = {"stop": None, "handle_signals": None, **kwargs}
            stop: Any = asyncio.Event() if options["stop"] is None else options["stop"]

            def end(name: str) -> None:
                names.append(name)
                queue.loop.loop.call_soon_threadsafe(stop.set)

            anyhow: Callable[..., Any] = plain
            with ended_by_signals(end, options["handle_signals"]):
                done = anyhow(*args, **{**options, "handle_signals": False, "stop": stop})
            named: R = replace(done, stopped_by=names[0]) if names else done
            return named

        return call


class _BlockingIterator(Generic[P, R]):
    """An asynchronous generator method of ReliableQueue as a generator with the same parameters and docstring."""

    def __init__(self, method: Callable[Concatenate[ReliableQueue, P], AsyncGenerator[R]]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __get__(self, queue: BlockingQueue, owner: type[BlockingQueue]) -> Callable[P, Iterator[R]]:
        @functools.wraps(self._method)
        def call(*args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
            items = self._method(queue.wrapped, *args, **kwargs)

            async def following() -> R | None:
                return await anext(items, None)

            try:
                while (item := queue.loop.run(following)) is not None:
                    yield item
            finally:
                with suppress(StoreUnavailable):  # if the server object is closed
                    queue.loop.run(items.aclose)

        return call


class BlockingQueue:
    """A :class:`claimq.ReliableQueue` for synchronous programs; see there for every method."""

    def __init__(self, queue: ReliableQueue, loop: BackgroundLoop, connection: CallersConnection) -> None:
        self.wrapped = queue
        self.loop = loop
        self.in_callers_thread = ReliableQueue(connection, queue.name, queue.worker), connection
        self.name = queue.name
        self.worker = queue.worker

    enqueue = _InCallersThread(ReliableQueue.enqueue)
    enqueue_many = _Blocking(ReliableQueue.enqueue_many)
    claim = _InCallersThread(ReliableQueue.claim)
    claim_item = _Blocking(ReliableQueue.claim_item)
    done = _InCallersThread(ReliableQueue.done)
    fail = _InCallersThread(ReliableQueue.fail)
    drop = _InCallersThread(ReliableQueue.drop)
    requeue = _InCallersThread(ReliableQueue.requeue)
    later = _InCallersThread(ReliableQueue.later)
    unclaim = _InCallersThread(ReliableQueue.unclaim)
    crash = _InCallersThread(ReliableQueue.crash)
    renew = _InCallersThread(ReliableQueue.renew)
    reap = _Blocking(ReliableQueue.reap)
    release_worker = _Blocking(ReliableQueue.release_worker)
    policy = _Blocking(ReliableQueue.policy)
    set_policy = _Blocking(ReliableQueue.set_policy)
    update_policy = _Blocking(ReliableQueue.update_policy)
    set_limit = _Blocking(ReliableQueue.set_limit)
    remove_limit = _Blocking(ReliableQueue.remove_limit)
    reset_limits = _Blocking(ReliableQueue.reset_limits)
    pause = _Blocking(ReliableQueue.pause)
    resume = _Blocking(ReliableQueue.resume)
    requeue_failed = _Blocking(ReliableQueue.requeue_failed)
    requeue_failed_item = _Blocking(ReliableQueue.requeue_failed_item)
    remove_failed = _Blocking(ReliableQueue.remove_failed)
    remove_failed_item = _Blocking(ReliableQueue.remove_failed_item)
    failed_items = _Blocking(ReliableQueue.failed_items)
    failed_item = _Blocking(ReliableQueue.failed_item)
    failed_reasons = _Blocking(ReliableQueue.failed_reasons)
    removed_items = _Blocking(ReliableQueue.removed_items)
    record_action = _Blocking(ReliableQueue.record_action)
    audit_log = _Blocking(ReliableQueue.audit_log)
    apply_failed_policy = _Blocking(ReliableQueue.apply_failed_policy)
    snapshot = _Blocking(ReliableQueue.snapshot)
    exists = _Blocking(ReliableQueue.exists)
    add_to_index = _Blocking(ReliableQueue.add_to_index)
    length = _Blocking(ReliableQueue.length)
    lengths = _Blocking(ReliableQueue.lengths)
    age = _Blocking(ReliableQueue.age)
    stats = _Blocking(ReliableQueue.stats)
    peek = _Blocking(ReliableQueue.peek)
    items = _Blocking(ReliableQueue.items)
    longest_claims = _Blocking(ReliableQueue.longest_claims)
    find = _Blocking(ReliableQueue.find)
    where = _Blocking(ReliableQueue.where)
    workers = _Blocking(ReliableQueue.workers)
    memory_usage = _Blocking(ReliableQueue.memory_usage)
    memory_share = _Blocking(ReliableQueue.memory_share)
    server_memory = _Blocking(ReliableQueue.server_memory)
    clients = _Blocking(ReliableQueue.clients)
    client_length = _Blocking(ReliableQueue.client_length)
    has_client = _Blocking(ReliableQueue.has_client)
    flush = _Blocking(ReliableQueue.flush)
    flush_client = _Blocking(ReliableQueue.flush_client)
    delete = _Blocking(ReliableQueue.delete)
    consume = _BlockingConsume(ReliableQueue.consume)
    drain_failed = _BlockingIterator(ReliableQueue.drain_failed)


class BlockingServer:
    """A :class:`claimq.Server` for synchronous programs. Use it as a context manager."""

    def __init__(self, server: claimq.server.Server, shared: ThreadedClient | None = None) -> None:
        self._server = server
        self._shared = shared
        self._loop = BackgroundLoop()
        self._is_closed = False
        self._callers = CallersConnection(server.connection, self._loop)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections and ends the background thread. Does nothing the second time, nor in a forked child:
        they are the parent's."""
        if self._is_closed or not self._loop.is_of_this_process:
            return
        self._loop.refuse_own_thread()
        if _is_finalizing():  # in a __del__: the connections end with the process
            return
        try:
            self._loop.run(self._server.close)
        finally:
            self._is_closed = True
            self._loop.stop()
            self._callers.close_socket()
            if self._shared is not None:
                self._shared.leave()

    def queue(self, name: str, *, worker: str | None = None) -> BlockingQueue:
        """See :meth:`claimq.Server.queue`."""
        return BlockingQueue(self._server.queue(name, worker=worker), self._loop, self._callers)

    def enqueue(self, items: Mapping[str, Iterable[object]]) -> dict[str, Enqueued]:
        """See :meth:`claimq.Server.enqueue`."""
        return self._loop.run(lambda: self._server.enqueue(items))

    def ping(self, *, verdicts: bool = False) -> None:
        """See :meth:`claimq.Server.ping`."""
        self._loop.run(lambda: self._server.ping(verdicts=verdicts))

    def queues(self, *, only_existing: bool = True) -> list[str]:
        """See :meth:`claimq.Server.queues`."""
        return self._loop.run(lambda: self._server.queues(only_existing=only_existing))

    def report(self) -> ServerReport:
        """See :meth:`claimq.Server.report`."""
        return self._loop.run(self._server.report)


def connect(
    url: str | None = None, *, settings: RedisSettings | None = None, client: Any = None
) -> BlockingServer:
    """A server, for synchronous programs; see :func:`claimq.connect`. Nothing is sent before the first call.

    ``client``: your own ``redis.Redis``, which claimq does not close. It must return bytes, make no retries of its own,
    and have a socket timeout of at least 3 seconds. Each call takes one of its connections and a thread. For a Redis
    Cluster give a URL or settings: any other client raises TypeError.
    """
    shared = None if client is None else ThreadedClient(client)
    return BlockingServer(claimq.server.connect(url, settings=settings, client=shared), shared)
