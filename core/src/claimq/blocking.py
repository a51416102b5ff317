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
import concurrent.futures
import functools
import inspect
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

import claimq.server
from claimq.errors import StoreUnavailable
from claimq.model import Enqueued, Located, ServerReport
from claimq.redis_store.settings import RedisSettings
from claimq.reliable_queue import ReliableQueue

P = ParamSpec("P")
R = TypeVar("R")


class _Loop:
    """An event loop on a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._pid = os.getpid()
        self._waited_for: set[concurrent.futures.Future[Any]] = set()
        self._thread = threading.Thread(target=self._serve, name="claimq", daemon=True)
        self._thread.start()

    @property
    def is_of_this_process(self) -> bool:
        """False in the child after a fork: the thread stayed with the parent."""
        return os.getpid() == self._pid

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        """The coroutine's result. An interrupt of the calling thread (Ctrl-C) cancels it and waits for its end."""
        if not self.is_of_this_process:
            work.close()
            raise RuntimeError("this connection was made before a fork; connect anew in the child process")
        if not self._thread.is_alive():
            work.close()
            raise StoreUnavailable("this connection is closed; connect anew")
        tasks: list[asyncio.Task[R]] = []  # at most one
        outcome: concurrent.futures.Future[R] = concurrent.futures.Future()

        def begin() -> None:
            tasks.append(self.loop.create_task(_guarded(work)))
            tasks[0].add_done_callback(lambda task: _hand_over(task, outcome))

        self._waited_for.add(outcome)
        try:
            self._soon(begin)
        except StoreUnavailable:
            self._waited_for.discard(outcome)
            work.close()
            raise
        try:
            return outcome.result()
        except BaseException:
            if not outcome.done():
                self._soon(lambda: [task.cancel() for task in tasks])
                concurrent.futures.wait([outcome])
            raise
        finally:
            self._waited_for.discard(outcome)
            if inspect.getcoroutinestate(work) == inspect.CORO_CREATED:  # the loop ended before it began
                work.close()

    def _soon(self, call: Callable[[], object]) -> None:
        try:
            self.loop.call_soon_threadsafe(call)
        except RuntimeError as error:  # the loop was closed just now
            raise StoreUnavailable("this connection is closed; connect anew") from error

    def stop(self) -> None:
        """Ends the thread. What is still running is cancelled; its claims are left to the leases.

        Other threads that wait for a call get StoreUnavailable.
        """
        if not self.is_of_this_process or not self._thread.is_alive():
            return
        ended = asyncio.run_coroutine_threadsafe(_cancel_all(), self.loop)
        ended.add_done_callback(lambda _: self.loop.call_soon_threadsafe(self.loop.stop))
        self._thread.join(timeout=5)  # a plain handler that is still at work ends the loop when it is done
        for outcome in list(self._waited_for):
            with suppress(concurrent.futures.InvalidStateError):  # it has ended just now
                outcome.set_exception(StoreUnavailable(_CLOSED))

    def _serve(self) -> None:
        self.loop.run_forever()
        self.loop.run_until_complete(_cancel_all())  # what other threads began while it ended
        self.loop.close()


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class _Left(Exception):
    """Carries a SystemExit or KeyboardInterrupt of a handler past the loop, which would end with it."""

    def __init__(self, reason: BaseException) -> None:
        super().__init__()
        self.reason = reason


async def _guarded(work: Coroutine[Any, Any, R]) -> R:
    try:
        return await work
    except (SystemExit, KeyboardInterrupt) as reason:
        raise _Left(reason) from None


_CLOSED = "this connection was closed during the call"


def _hand_over(task: asyncio.Task[R], outcome: concurrent.futures.Future[R]) -> None:
    if outcome.done():  # its caller was told already that the connection is closed
        return
    if task.cancelled():
        outcome.set_exception(StoreUnavailable(_CLOSED))
    elif (error := task.exception()) is not None:
        outcome.set_exception(error.reason if isinstance(error, _Left) else error)
    else:
        outcome.set_result(task.result())


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


class _BlockingConsume(_Blocking[P, R]):
    """consume(), which ends in good order on SIGINT and SIGTERM: they arrive in the main thread, not in the loop's."""

    def __get__(self, queue: BlockingQueue, owner: type[BlockingQueue]) -> Callable[P, R]:
        plain = super().__get__(queue, owner)

        @functools.wraps(self._method)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            in_main = threading.current_thread() is threading.main_thread()
            if not (kwargs.get("handle_signals", True) and in_main and queue.loop.is_of_this_process):
                return plain(*args, **kwargs)
            with _signals(queue.loop.loop, kwargs.get("stop")) as (stop, caught):
                anyhow: Callable[..., Any] = plain
                done = anyhow(*args, **{**kwargs, "handle_signals": False, "stop": stop})
                named: R = replace(done, stopped_by=caught[0]) if caught else done
                return named

        return call


@contextmanager
def _signals(
    loop: asyncio.AbstractEventLoop, given: object
) -> Generator[tuple[asyncio.Event | threading.Event, list[str]]]:
    """While this lasts, SIGINT and SIGTERM set the event; the list has the name of the first that came."""
    stop = given if isinstance(given, asyncio.Event | threading.Event) else asyncio.Event()
    caught: list[str] = []

    def note(number: int, _: object) -> None:
        caught.append(signal.Signals(number).name)
        loop.call_soon_threadsafe(stop.set)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop, caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
    delete = _Blocking(ReliableQueue.delete)
    explain = _Blocking(ReliableQueue.explain)
    recount = _Blocking(ReliableQueue.recount)
    wait_for_work = _Blocking(ReliableQueue.wait_for_work)
    consume = _BlockingConsume(ReliableQueue.consume)

    def drain_failed(self, *, chunk: int = 100) -> Iterator[Located]:
        """See :meth:`claimq.ReliableQueue.drain_failed`."""
        items = self.wrapped.drain_failed(chunk=chunk)

        async def following() -> Located | None:
            return await anext(items, None)

        async def end() -> None:
            await items.aclose()

        try:
            while (located := self.loop.run(following())) is not None:
                yield located
        finally:
            self.loop.run(end())


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
        """Closes the connections and ends the background thread. In a forked child: nothing, they are the parent's."""
        if not self._loop.is_of_this_process:
            return
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

    def ping(self, *, verdicts: bool = False) -> None:
        """See :meth:`claimq.Server.ping`."""
        self._loop.run(self._server.ping(verdicts=verdicts))

    def report(self) -> ServerReport:
        """See :meth:`claimq.Server.report`."""
        return self._loop.run(self._server.report())


def connect(url: str | None = None, *, settings: RedisSettings | None = None) -> BlockingServer:
    """A server by URL or settings, for synchronous programs. Nothing is sent before the first call."""
    return BlockingServer(claimq.server.connect(url, settings=settings))
