"""The two ways to wait for the sidecar: blocking a thread, or on an event loop.

The client is written once, as coroutines that await nothing but a backend. Those of ``BLOCKING`` never
suspend, so :func:`claimq.concurrency.without_loop.run` runs such a coroutine from start to end without an event loop.
"""

from __future__ import annotations

import asyncio
import functools
import select
import socket
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from claimq.concurrency.without_loop import run
from claimq.worker.errors import SidecarUnavailable

P = ParamSpec("P")
R = TypeVar("R")
_READ_BYTES = 256 * 1024
_JOIN_SECONDS = 5.0
_LOOK_SECONDS = 1.0
"""How often a thread that waits for another one checks whether the interpreter is ending."""
is_ending = sys.is_finalizing  # modules may be emptied before the last __del__


def refuse_if_ending() -> None:
    """Raises SidecarUnavailable while the interpreter ends: other threads do not run any more."""
    if is_ending():
        raise SidecarUnavailable("the interpreter is ending, and threads with it; end items and close before")


def blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]], *, of: Callable[[Any], Any] | None = None
) -> Callable[Concatenate[Any, P], R]:
    """The blocking method with the parameters, result and docstring of a coroutine method.

    ``of``: finds the object of the coroutine method, where that is another than the caller's.
    """

    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return run(method(of(self) if of else self, *args, **kwargs))

    functools.update_wrapper(call, method)
    return call


class Stream(ABC):
    """A connected socket. Deadlines are instants of ``time.monotonic()``."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._poll = select.poll()
        self._poll.register(connected, select.POLLIN)

    @abstractmethod
    async def send(self, data: bytes, timeout_at: float) -> None:
        """Sends all bytes. Raises OSError; TimeoutError after timeout_at."""

    @abstractmethod
    async def receive(self, timeout_at: float) -> bytes:
        """Some bytes; none at the end of the stream. Raises OSError; TimeoutError after timeout_at."""

    def is_stale(self) -> bool:
        """Whether the sidecar has closed this idle connection."""
        return bool(self._poll.poll(0))

    def interrupt(self) -> None:
        """Ends a send or receive in progress. Safe in any thread and in a signal handler."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it has ended already

    def close(self) -> None:
        """Closes it."""
        self._socket.close()

    def close_copy(self) -> None:
        """Closes the copy of the socket in the child of a fork."""
        self._socket.close()


class Event(Protocol):
    """A flag that can be waited for."""

    def is_set(self) -> bool:
        """Whether it is set."""
        ...

    def set(self) -> None:
        """Sets it."""
        ...

    def clear(self) -> None:
        """Clears it."""
        ...

    async def wait_for(self, seconds: float) -> None:
        """Waits until it is set, or until the time is over."""
        ...


class Waiter(Protocol):
    """A wait of one caller, which another one ends. For one use."""

    async def wait(self) -> None:
        """Waits until it is woken."""
        ...

    def wake(self) -> None:
        """Ends the wait."""
        ...


class Backend(Protocol):
    """What the client awaits."""

    async def connect(self, path: str, timeout_at: float) -> Stream:
        """Connects to a Unix socket. Raises OSError."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Waits."""
        ...

    def event(self) -> Event:
        """An event that is not set."""
        ...

    def waiter(self) -> Waiter:
        """A wait that has not begun."""
        ...

    def start(self, work: Coroutine[Any, Any, None]) -> Callable[[], Awaitable[None]]:
        """Runs a coroutine in the background. The result ends the wait for it: await it after asking it to end."""
        ...

    async def shield(self, work: Coroutine[Any, Any, None]) -> None:
        """Awaits something that goes on when the caller is cancelled."""
        ...

    async def received(
        self, work: Coroutine[Any, Any, R], stream: Stream, if_late: Callable[[R], Coroutine[Any, Any, None]]
    ) -> R:
        """Awaits an exchange on ``stream``. Cancelling the caller interrupts it; a result that had arrived by
        then goes to ``if_late``."""
        ...

    def caller(self) -> object:
        """The thread or task that calls."""
        ...

    def is_cancelled(self) -> bool:
        """Whether the caller is being cancelled."""
        ...


class BlockingStream(Stream):
    """Blocks the calling thread."""

    async def send(self, data: bytes, timeout_at: float) -> None:
        """See :class:`Stream`."""
        self._socket.settimeout(_left(timeout_at))
        self._socket.sendall(data)

    async def receive(self, timeout_at: float) -> bytes:
        """See :class:`Stream`."""
        self._socket.settimeout(_left(timeout_at))
        try:
            return self._socket.recv(_READ_BYTES)
        except TimeoutError:
            if not self._poll.poll(0):
                raise
            return self._socket.recv(_READ_BYTES)  # a greenlet that computed has let this one wait


class _ThreadEvent(threading.Event):
    async def wait_for(self, seconds: float) -> None:
        self.wait(seconds)


class _ThreadWaiter:
    """By a lock: an Event would take several times as long."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire(blocking=False)

    async def wait(self) -> None:
        while not self._lock.acquire(timeout=_LOOK_SECONDS):
            refuse_if_ending()

    def wake(self) -> None:
        with suppress(RuntimeError):  # another thread has woken it
            self._lock.release()


class BlockingBackend:
    """Blocks the calling thread; background work has a thread of its own."""

    async def connect(self, path: str, timeout_at: float) -> Stream:
        """See :class:`Backend`."""
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.settimeout(_left(timeout_at))
            made.connect(path)
        except BaseException:
            made.close()
            raise
        return self._stream(made)

    def _stream(self, connected: socket.socket) -> Stream:
        return BlockingStream(connected)

    async def sleep(self, seconds: float) -> None:
        """See :class:`Backend`."""
        time.sleep(seconds)  # noqa: ASYNC251 - to block is what this backend is for

    def event(self) -> Event:
        """See :class:`Backend`."""
        return _ThreadEvent()

    def waiter(self) -> Waiter:
        """See :class:`Backend`."""
        return _ThreadWaiter()

    def start(self, work: Coroutine[Any, Any, None]) -> Callable[[], Awaitable[None]]:
        """See :class:`Backend`."""
        thread = threading.Thread(target=run, args=(work,), name="claimq-session", daemon=True)
        thread.start()

        async def end() -> None:
            if threading.current_thread() is not thread:
                thread.join(_JOIN_SECONDS)

        return end

    async def shield(self, work: Coroutine[Any, Any, None]) -> None:
        """See :class:`Backend`."""
        await work

    async def received(
        self, work: Coroutine[Any, Any, R], stream: Stream, if_late: Callable[[R], Coroutine[Any, Any, None]]
    ) -> R:
        """See :class:`Backend`."""
        del stream, if_late
        return await work

    def caller(self) -> object:
        """See :class:`Backend`."""
        return threading.get_ident()

    def is_cancelled(self) -> bool:
        """See :class:`Backend`."""
        return False


class _AsyncioStream(Stream):
    """By a transport: it stays registered with the loop, while ``loop.sock_recv`` would register each read."""

    def __init__(
        self, connected: socket.socket, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        super().__init__(connected)
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes, timeout_at: float) -> None:
        self._writer.write(data)
        if self._writer.transport.get_write_buffer_size():
            async with asyncio.timeout(_left(timeout_at)):
                await self._writer.drain()

    async def receive(self, timeout_at: float) -> bytes:
        try:
            async with asyncio.timeout(_left(timeout_at)):
                return await self._reader.read(_READ_BYTES)
        except TimeoutError:  # bytes may be there: a task that computed has let this one wait
            async with asyncio.timeout(0):
                return await self._reader.read(_READ_BYTES)

    def is_stale(self) -> bool:
        return self._writer.is_closing() or self._reader.at_eof()

    def close(self) -> None:
        self._writer.transport.abort()


class _AsyncioEvent(asyncio.Event):
    async def wait_for(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self.wait()
        except TimeoutError:
            return


class _AsyncioWaiter:
    def __init__(self) -> None:
        self._woken = asyncio.get_running_loop().create_future()

    async def wait(self) -> None:
        await self._woken

    def wake(self) -> None:
        if not self._woken.done():
            self._woken.set_result(None)


class _AsyncioBackend:
    async def connect(self, path: str, timeout_at: float) -> Stream:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.setblocking(False)
        try:
            async with asyncio.timeout(_left(timeout_at)):
                await asyncio.get_running_loop().sock_connect(made, path)
                reader, writer = await asyncio.open_unix_connection(sock=made, limit=4 * _READ_BYTES)
        except BaseException:
            made.close()
            raise
        return _AsyncioStream(made, reader, writer)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def event(self) -> Event:
        return _AsyncioEvent()

    def waiter(self) -> Waiter:
        return _AsyncioWaiter()

    def start(self, work: Coroutine[Any, Any, None]) -> Callable[[], Awaitable[None]]:
        task = asyncio.ensure_future(work)

        async def end() -> None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        return end

    async def shield(self, work: Coroutine[Any, Any, None]) -> None:
        await asyncio.shield(work)

    async def received(
        self, work: Coroutine[Any, Any, R], stream: Stream, if_late: Callable[[R], Coroutine[Any, Any, None]]
    ) -> R:
        exchange = asyncio.ensure_future(work)

        async def finish() -> None:
            await asyncio.wait({exchange})
            if not exchange.cancelled() and exchange.exception() is None:
                await if_late(exchange.result())

        try:
            return await asyncio.shield(exchange)
        except asyncio.CancelledError:
            stream.interrupt()  # what had arrived can still be read, nothing more arrives
            await asyncio.shield(finish())
            raise

    def caller(self) -> object:
        return asyncio.current_task()

    def is_cancelled(self) -> bool:
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0


def _left(timeout_at: float) -> float:
    return max(timeout_at - time.monotonic(), 0.001)


BLOCKING: Backend = BlockingBackend()
ASYNCIO: Backend = _AsyncioBackend()
"""Waits on the running event loop; background work is a task."""
