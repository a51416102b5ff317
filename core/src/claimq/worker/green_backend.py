"""The blocking client in a program whose threads and sockets gevent has replaced: callers are greenlets.

A ``gevent.Timeout`` or a kill can end any wait, and the program continues. So an exchange runs in a greenlet of its
own, which reads what had arrived.
"""

from __future__ import annotations

import _socket  # gevent does not replace it
import socket
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from claimq.concurrency.green_threads import patched_by, refuse_unusable_threads
from claimq.concurrency.without_loop import run
from claimq.worker.backends import BLOCKING, Backend, BlockingBackend, BlockingStream, Stream

R = TypeVar("R")


def blocking_backend() -> Backend:
    """The backend for callers that block. Raises RuntimeError in a program in which they would stop each other."""
    refuse_unusable_threads("claimq.worker", blocks_on_sockets=True)
    return BLOCKING if patched_by() is None else _GEVENT


class _GreenStream(BlockingStream):
    def interrupt(self) -> None:
        """As the stream's. gevent's own ``shutdown`` would raise in the greenlet that reads, which would lose the bytes
        that have arrived."""
        try:
            copy = _socket.socket(fileno=self._socket.fileno())
        except (OSError, ValueError):
            return  # it is closed
        try:
            copy.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it has ended already
        finally:
            copy.detach()


class _GreenBackend(BlockingBackend):
    def _stream(self, connected: socket.socket) -> Stream:
        return _GreenStream(connected)

    async def shield(self, work: Coroutine[Any, Any, None]) -> None:
        _in_greenlet(work).result()

    async def received(
        self, work: Coroutine[Any, Any, R], stream: Stream, if_late: Callable[[R], Coroutine[Any, Any, None]]
    ) -> R:
        exchange = _in_greenlet(work)
        try:
            return exchange.result()
        except BaseException:
            if not exchange.done():
                stream.interrupt()  # what had arrived can still be read, nothing more arrives
                wait([exchange])
            if exchange.exception() is None:
                run(if_late(exchange.result()))
            raise


def _in_greenlet(work: Coroutine[Any, Any, R]) -> Future[R]:
    """Runs a coroutine that continues when the caller's wait for it ends."""
    future: Future[R] = Future()

    def end() -> None:
        try:
            future.set_result(run(work))
        except BaseException as error:  # noqa: BLE001 - raised in the caller
            future.set_exception(error)

    threading.Thread(target=end, name="claimq-exchange", daemon=True).start()
    return future


_GEVENT: Backend = _GreenBackend()
