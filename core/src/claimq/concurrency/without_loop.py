"""Runs coroutines without an event loop."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

R = TypeVar("R")


def run(work: Awaitable[R]) -> R:
    """Runs a coroutine that never suspends, from start to end; returns its result."""
    try:
        next(work.__await__())
    except StopIteration as end:
        result: R = end.value
        return result
    raise RuntimeError("this coroutine waits for an event loop")
