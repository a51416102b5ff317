"""Waiting for something to become true: soon when it is, loudly when it never is."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar, overload

T = TypeVar("T")

PATIENCE = 300.0
"""Seconds until a test gives up waiting. Only a wait that never ends gets there, however busy the machine is."""
AFTER_ERROR = 60.0
"""Seconds until a test gives up waiting after one of its tasks has ended with an error: what it waits for was probably
to come from that task."""
FIRST_PAUSE = 0.005
LONGEST_PAUSE = 0.1
_MOST_SHOWN, _LONGEST_SHOWN = 10, 500
"""Of the changes before the end: how many, and characters of each."""


class CannotHappen(RuntimeError):
    """Ends a wait at once: what it waits for cannot come any more. The message is the reason. A probe may raise it."""


class Program(Protocol):
    """A process that a wait depends on."""

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        ...

    def ending(self) -> str:
        """How it has ended, and the end of its output."""
        ...


@overload
async def eventually(
    probe: Callable[[], Awaitable[T]], *, within: float = ..., why: str = ..., after_error: float = ...
) -> T: ...
@overload
async def eventually(
    probe: Callable[[], T], *, within: float = ..., why: str = ..., after_error: float = ...
) -> T: ...
async def eventually(
    probe: Callable[[], object], *, within: float = PATIENCE, why: str = "", after_error: float = AFTER_ERROR
) -> object:
    """Calls `probe` (a function or coroutine function) until it returns something true, and returns that.

    An AssertionError of the probe counts as "not yet". After `within` seconds: AssertionError, with the last one; also
    `after_error` seconds after a task that ran when the wait began has ended with an error, which is its cause.
    CannotHappen of the probe ends the wait at once.
    """
    seen = _Seen()
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for pause in _pauses(within):
        try:
            found = probe()
            result: object = await found if inspect.isawaitable(found) else found
            if result:
                return result
            seen.note(result)
        except CannotHappen as error:
            raise seen.ended_by(error, why) from None
        except AssertionError as error:
            seen.note(error)
        seen.note_tasks(tasks, after_error, why)
        await asyncio.sleep(pause)
    raise seen.gave_up(within, why)


def eventually_sync(
    probe: Callable[[], T], *, within: float = PATIENCE, why: str = "", needs: Sequence[Program] = ()
) -> T:
    """`eventually` for tests without an event loop.

    CannotHappen with the output of a program of `needs` when that has ended and the probe is in vain once more.
    """
    seen = _Seen()
    for pause in _pauses(within):
        ended = [program for program in needs if not program.is_running]
        try:
            result = probe()
            if result:
                return result
            seen.note(result)
        except CannotHappen as error:
            raise seen.ended_by(error, why) from None
        except AssertionError as error:
            seen.note(error)
        if ended:
            raise seen.ended_by(CannotHappen(ended[0].ending()), why)
        time.sleep(pause)
    raise seen.gave_up(within, why)


def _pauses(within: float) -> Iterator[float]:
    """The seconds to wait after each try that failed; always one try after the time is over."""
    deadline, pause = time.monotonic() + within, FIRST_PAUSE
    while time.monotonic() < deadline:
        yield pause
        pause = min(pause * 1.5, LONGEST_PAUSE)
    yield 0.0


class _Seen:
    """What the tries of a wait have found: the last one, and for who reads the failure the changes before it."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._last: object = None
        self._changes: list[str] = []
        self._failed_at: float | None = None

    def note_tasks(self, tasks: set[asyncio.Task[Any]], after_error: float, why: str) -> None:
        """Raises AssertionError when one of the tasks has ended with an error some time ago."""
        errors = [
            error for task in tasks if task.done() and not task.cancelled() and (error := task.exception())
        ]
        if not errors:
            return
        self._failed_at = self._failed_at or time.monotonic()
        if time.monotonic() - self._failed_at >= after_error:
            gave_up = self.gave_up(round(time.monotonic() - self._began, 1), why)
            gave_up.add_note(f"a task of the test has ended with {errors[0]!r}")
            raise gave_up from errors[0]

    def note(self, found: object) -> None:
        """A try was in vain."""
        if not self._changes or repr(found) != repr(self._last):
            self._changes.append(
                f"after {time.monotonic() - self._began:.1f} s: {repr(found)[:_LONGEST_SHOWN]}"
            )
            del self._changes[_MOST_SHOWN // 2 : -_MOST_SHOWN // 2]
        self._last = found

    def gave_up(self, within: float, why: str) -> AssertionError:
        """The error of the wait."""
        what = f"{why}: " if why else ""
        before = "".join(f"\n{change}" for change in self._changes[:-1])
        error = AssertionError(f"{what}still not so after {within} s; last: {self._last!r}{before}")
        if isinstance(self._last, AssertionError):
            error.__cause__ = self._last
        return error

    def ended_by(self, error: CannotHappen, why: str) -> CannotHappen:
        """The error, with what it ended and what was seen before."""
        error.add_note("\n".join([f"It ended the wait for this: {why or 'a probe'}", *self._changes]))
        return error
