"""An event loop on a thread of its own, and callers in other threads that wait for what it does."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

from claimq.errors import StoreUnavailable

R = TypeVar("R")

_CLOSED = "this connection was closed during the call"


class BackgroundLoop:
    """Runs coroutines for any number of threads."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._pid = os.getpid()
        self._calls: set[_Call[Any]] = set()
        self._thread = threading.Thread(target=self._serve, name="claimq", daemon=True)
        self._thread.start()

    @property
    def is_of_this_process(self) -> bool:
        """False in the child after a fork: the thread stayed with the parent."""
        return os.getpid() == self._pid

    def run(self, work: Callable[[], Awaitable[R]]) -> R:
        """What ``work()`` returns, called and awaited on the loop.

        An interrupt of the calling thread (Ctrl-C, a signal's handler that raises) cancels it and waits for its end. It
        may come between any two instructions: whatever it cuts short, the loop goes on for other calls. Raises
        StoreUnavailable once the loop is stopped.
        """
        if not self.is_of_this_process:
            raise RuntimeError("this connection was made before a fork; connect anew in the child process")
        call = _Call(work)
        try:
            self._calls.add(call)
            if not self._soon(call.begin):
                raise StoreUnavailable("this connection is closed; connect anew")
            return call.result()
        except BaseException:
            if not call.has_ended and self._soon(call.cancel):
                call.wait()
            raise
        finally:
            self._calls.discard(call)

    def stop(self) -> None:
        """Ends the thread. What is still running is cancelled; its claims are left to the leases.

        Other threads that wait for a call get StoreUnavailable.
        """
        if self.is_of_this_process and self._soon(lambda: self.loop.create_task(self._end())):
            self._thread.join(
                timeout=5
            )  # a plain handler that is still at work ends the loop when it is done
            self._tell_that_it_is_closed()

    def _soon(self, call: Callable[[], object]) -> bool:
        try:
            self.loop.call_soon_threadsafe(call)
        except RuntimeError:  # the loop is closed
            return False
        return True

    async def _end(self) -> None:
        await _cancel_all()
        self.loop.stop()

    def _serve(self) -> None:
        self.loop.run_forever()
        self.loop.run_until_complete(_cancel_all())  # what other threads began while it ended
        self.loop.close()
        self._tell_that_it_is_closed()

    def _tell_that_it_is_closed(self) -> None:
        for call in list(self._calls):
            call.end(StoreUnavailable(_CLOSED))


class _Call(Generic[R]):
    """One call: made on the loop, waited for in another thread.

    The two meet in a bare lock that is opened once and by the loop alone. A Future or an Event takes a lock in several
    steps on both sides: an interrupt between them leaves it taken, and the loop would wait for it for ever.
    """

    def __init__(self, work: Callable[[], Awaitable[R]]) -> None:
        self._work = work
        self._task: asyncio.Task[R] | None = None
        self._ends: list[asyncio.Task[R] | BaseException] = []
        self._ended = threading.Lock()
        self._ended.acquire()

    @property
    def has_ended(self) -> bool:
        """Whether there is a result or an error."""
        return bool(self._ends)

    def begin(self) -> None:
        """On the loop."""
        self._task = asyncio.get_running_loop().create_task(_guarded(self._work))
        self._task.add_done_callback(self._hand_over)

    def cancel(self) -> None:
        """On the loop: ends it soon, also if it was cut short before it began."""
        if self._task is None:
            self.end(StoreUnavailable(_CLOSED))
        else:
            self._task.cancel()

    def _hand_over(self, task: asyncio.Task[R]) -> None:
        if task.cancelled():
            self.end(StoreUnavailable(_CLOSED))
        elif (error := task.exception()) is not None:
            self.end(error.reason if isinstance(error, _Left) else error)
        else:
            self.end(task)

    def end(self, how: asyncio.Task[R] | BaseException) -> None:
        """The first end counts: its caller may have been told already that the connection is closed."""
        self._ends.append(how)
        with suppress(RuntimeError):  # it is open
            self._ended.release()

    def wait(self) -> None:
        """In the caller's thread, for the end."""
        self._ended.acquire()

    def result(self) -> R:
        """In the caller's thread: waits, and returns or raises what came of it."""
        self.wait()
        how = self._ends[0]
        if isinstance(how, BaseException):
            raise how
        return how.result()


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


async def _guarded(work: Callable[[], Awaitable[R]]) -> R:
    try:
        return await work()
    except (SystemExit, KeyboardInterrupt) as reason:
        raise _Left(reason) from None
