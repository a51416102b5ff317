"""An event loop on a thread of its own, which runs coroutines for callers in other threads."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from claimq.concurrency.green_threads import new_event_loop, refuse_unusable_threads, start_thread
from claimq.errors import StoreUnavailable

R = TypeVar("R")

_CLOSED = "this connection was closed during the call"
_ENDING = "the interpreter is ending, and threads with it; make calls and close connections before"
_LOOK_SECONDS = 1.0
"""How often a call looks whether the loop's thread can still end it."""
_is_finalizing = sys.is_finalizing  # modules may be emptied before the last __del__


class BackgroundLoop:
    """Runs coroutines for any number of threads. Their calls block until the coroutine has ended."""

    def __init__(self) -> None:
        """Raises RuntimeError in a program that eventlet has patched, and OSError without free file descriptors."""
        refuse_unusable_threads("claimq.blocking")
        self._pid = os.getpid()
        self._calls: set[_Call[Any]] = set()
        self._is_ending = False  # read and written on the loop
        self._ident = 0
        """Of the thread while it runs: later another thread may get the same one."""
        self._thread_ended = _Signal()
        begun = _Outcome[asyncio.AbstractEventLoop]()
        start_thread(lambda: self._serve(begun))
        self.loop = begun.result()

    @property
    def is_of_this_process(self) -> bool:
        """False in the child after a fork, also one that runs no hooks: the thread exists only in the parent."""
        return os.getpid() == self._pid

    @property
    def is_current(self) -> bool:
        """Whether this is its thread."""
        return threading.get_ident() == self._ident and self.is_of_this_process

    def refuse_own_thread(self) -> None:
        """Raises RuntimeError on the loop's thread, where a blocking call would wait for itself."""
        if self.is_current:
            raise RuntimeError(
                "a blocking call on the thread of its own event loop would never end; await the methods of "
                "claimq.connect(), or call it in a thread, for example with asyncio.to_thread()"
            )

    def soon(self, call: Callable[[], object]) -> bool:
        """Makes the call on the loop, from any thread; False if the loop is closed."""
        try:
            self.loop.call_soon_threadsafe(call)
        except RuntimeError:
            return False
        return True

    def run(self, work: Callable[[], Awaitable[R]]) -> R:
        """Calls ``work`` on the loop and returns the result of its coroutine.

        An interrupt of the calling thread (Ctrl-C, or a signal handler that raises) cancels the coroutine and waits for
        its end. It may come between any two instructions; the loop goes on for other calls in any case. Raises
        StoreUnavailable once the loop is stopped, and RuntimeError on the loop's own thread.
        """
        self.refuse_own_thread()
        if _is_finalizing():
            raise StoreUnavailable(_ENDING)
        if not self.is_of_this_process:
            raise RuntimeError("this connection was made before a fork; connect again in the child process")
        call = _Call(work)
        try:
            self._calls.add(call)
            if not self.soon(lambda: self._begin(call)):
                raise StoreUnavailable("this connection is closed; connect again")
            return call.result()
        except BaseException:
            if not call.has_ended and self.soon(call.cancel):
                call.wait_for_end()
            raise
        finally:
            self._calls.discard(call)

    def stop(self) -> None:
        """Ends the thread and cancels running calls; their claims are left to their leases.

        Other threads that wait for a call get StoreUnavailable.
        """
        if _is_finalizing():  # its thread does not run any more, and the connections end with the process
            return
        if self.is_of_this_process and self.soon(lambda: self.loop.create_task(self._end())):
            # A plain handler cannot be interrupted; the loop ends when it has returned.
            self._thread_ended.wait(5)
            self._end_calls()

    def _begin(self, call: _Call[Any]) -> None:
        """On the loop. Once it is ending, no task may begin: it could be left behind, pending."""
        if self._is_ending:
            call.end(StoreUnavailable(_CLOSED))
        else:
            call.begin()

    async def _end(self) -> None:
        self._is_ending = True
        await _cancel_all()
        self.loop.stop()

    def _serve(self, begun: _Outcome[asyncio.AbstractEventLoop]) -> None:
        try:
            loop = new_event_loop()
        except BaseException as error:  # noqa: BLE001 - the thread that waits raises it
            begun.end(error)
            return
        self._ident = threading.get_ident()
        begun.end(_Result(loop))
        loop.run_forever()
        loop.run_until_complete(_cancel_all())  # what tasks began while they were cancelled
        loop.close()
        self._ident = 0
        self._end_calls()
        self._thread_ended.set()

    def _end_calls(self) -> None:
        for call in list(self._calls):
            call.end(StoreUnavailable(_CLOSED))


class _Signal:
    """Set once, in any thread.

    A bare lock that is released once. An Event takes a lock in several steps on both sides: an interrupt between them
    would leave it locked, and the other side would wait forever.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire(blocking=False)

    def set(self) -> None:
        """Sets it. Does nothing the second time."""
        with suppress(RuntimeError):
            self._lock.release()

    def wait(self, seconds: float) -> bool:
        """Waits until it is set or the time is over; whether it is set."""
        is_set = self._lock.acquire(timeout=seconds)
        if is_set:
            self.set()  # for the next one that waits
        return is_set


@dataclass(frozen=True, slots=True)
class _Result(Generic[R]):
    value: R


class _Outcome(Generic[R]):
    """A result or an error of the loop's thread, for which another thread waits."""

    def __init__(self) -> None:
        self._ends: list[_Result[R] | BaseException] = []
        self._ended = _Signal()

    @property
    def has_ended(self) -> bool:
        """Whether there is a result or an error."""
        return bool(self._ends)

    def end(self, how: _Result[R] | BaseException) -> None:
        """Sets the result or the error. Only the first one counts: the connection may have been closed before."""
        self._ends.append(how)
        self._ended.set()

    def wait_for_end(self) -> None:
        """Waits for the end. Raises StoreUnavailable if the interpreter ends in between."""
        while not self._ended.wait(_LOOK_SECONDS):
            if _is_finalizing():
                raise StoreUnavailable(_ENDING)

    def result(self) -> R:
        """Waits, then returns the result or raises the error."""
        self.wait_for_end()
        how = self._ends[0]
        if isinstance(how, BaseException):
            raise how
        return how.value


class _Call(_Outcome[R]):
    """One call: made on the loop, waited for in another thread."""

    def __init__(self, work: Callable[[], Awaitable[R]]) -> None:
        super().__init__()
        self._work = work
        self._task: asyncio.Task[R] | None = None

    def begin(self) -> None:
        """On the loop: starts the coroutine."""
        self._task = asyncio.get_running_loop().create_task(_guarded(self._work))
        self._task.add_done_callback(self._note_end)

    def cancel(self) -> None:
        """On the loop: cancels the coroutine, or ends the call if it has not begun."""
        if self._task is None:
            self.end(StoreUnavailable(_CLOSED))
        else:
            self._task.cancel()

    def _note_end(self, task: asyncio.Task[R]) -> None:
        if task.cancelled():
            self.end(StoreUnavailable(_CLOSED))
        elif (error := task.exception()) is not None:
            self.end(error.reason if isinstance(error, _ExitRequested) else error)
        else:
            self.end(_Result(task.result()))


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class _ExitRequested(Exception):
    """Carries a SystemExit or KeyboardInterrupt of a handler to the caller; raised on the loop, it would end the
    loop."""

    def __init__(self, reason: BaseException) -> None:
        super().__init__()
        self.reason = reason


async def _guarded(work: Callable[[], Awaitable[R]]) -> R:
    try:
        return await work()
    except (SystemExit, KeyboardInterrupt) as reason:
        raise _ExitRequested(reason) from None
