"""Waiting for something to become true: soon when it is, loudly when it never is."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar, overload

T = TypeVar("T")

PATIENCE = 300.0
"""Seconds until a test gives up waiting. Only a wait that never ends gets there, however busy the machine is."""
FIRST_PAUSE = 0.005
LONGEST_PAUSE = 0.1
_MOST_SHOWN, _LONGEST_SHOWN = 10, 500
"""Of the changes before the end: how many, and characters of each."""


@overload
async def eventually(probe: Callable[[], Awaitable[T]], *, within: float = PATIENCE, why: str = "") -> T: ...
@overload
async def eventually(probe: Callable[[], T], *, within: float = PATIENCE, why: str = "") -> T: ...
async def eventually(probe: Callable[[], object], *, within: float = PATIENCE, why: str = "") -> object:
    """Calls `probe` (a function or coroutine function) until it returns something true, and returns that.

    An AssertionError of the probe counts as "not yet". After `within` seconds: AssertionError, with the last one.
    """
    seen = _Seen()
    for pause in _pauses(within):
        try:
            found = probe()
            result: object = await found if inspect.isawaitable(found) else found
            if result:
                return result
            seen.note(result)
        except AssertionError as error:
            seen.note(error)
        await asyncio.sleep(pause)
    raise seen.gave_up(within, why)


def eventually_sync(probe: Callable[[], T], *, within: float = PATIENCE, why: str = "") -> T:
    """`eventually` for tests without an event loop."""
    seen = _Seen()
    for pause in _pauses(within):
        try:
            result = probe()
            if result:
                return result
            seen.note(result)
        except AssertionError as error:
            seen.note(error)
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
