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


@overload
async def eventually(probe: Callable[[], Awaitable[T]], *, within: float = PATIENCE, why: str = "") -> T: ...
@overload
async def eventually(probe: Callable[[], T], *, within: float = PATIENCE, why: str = "") -> T: ...
async def eventually(probe: Callable[[], object], *, within: float = PATIENCE, why: str = "") -> object:
    """Calls `probe` (a function or coroutine function) until it returns something true, and returns that.

    An AssertionError of the probe counts as "not yet". After `within` seconds: AssertionError, with the last one.
    """
    last: object = None
    for pause in _pauses(within):
        try:
            found = probe()
            result: object = await found if inspect.isawaitable(found) else found
            if result:
                return result
            last = result
        except AssertionError as error:
            last = error
        await asyncio.sleep(pause)
    raise _gave_up(within, why, last)


def eventually_sync(probe: Callable[[], T], *, within: float = PATIENCE, why: str = "") -> T:
    """`eventually` for tests without an event loop."""
    last: object = None
    for pause in _pauses(within):
        try:
            result = probe()
            if result:
                return result
            last = result
        except AssertionError as error:
            last = error
        time.sleep(pause)
    raise _gave_up(within, why, last)


def _pauses(within: float) -> Iterator[float]:
    """The seconds to wait after each try that failed; always one try after the time is over."""
    deadline, pause = time.monotonic() + within, FIRST_PAUSE
    while time.monotonic() < deadline:
        yield pause
        pause = min(pause * 1.5, LONGEST_PAUSE)
    yield 0.0


def _gave_up(within: float, why: str, last: object) -> AssertionError:
    what = f"{why}: " if why else ""
    error = AssertionError(f"{what}still not so after {within} s; last: {last!r}")
    if isinstance(last, AssertionError):
        error.__cause__ = last
    return error
