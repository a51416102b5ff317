"""Runs coroutines without an event loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

R = TypeVar("R")


class _Here(threading.local):
    """``runs``: how many calls of :func:`run` this thread is in."""

    runs = 0


_here = _Here()


def run(work: Coroutine[Any, Any, R]) -> R:
    """Runs a coroutine that never suspends, from start to end; returns its result."""
    _here.runs += 1
    try:
        work.send(None)
    except StopIteration as end:
        reply: R = end.value
        return reply
    finally:
        _here.runs -= 1
    raise RuntimeError("this coroutine waits for an event loop")


async def sleep(seconds: float) -> None:
    """Waits, in :func:`run` without suspending: its thread waits."""
    if _here.runs:
        time.sleep(max(seconds, 0.0))  # noqa: ASYNC251 - there is no event loop that it could block
    else:
        await asyncio.sleep(seconds)
