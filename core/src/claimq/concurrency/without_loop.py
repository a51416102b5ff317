"""Runs coroutines without an event loop."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

R = TypeVar("R")


def run(work: Coroutine[Any, Any, R]) -> R:
    """Runs a coroutine that never suspends, from start to end; returns its result."""
    try:
        work.send(None)
    except StopIteration as end:
        reply: R = end.value
        return reply
    raise RuntimeError("this coroutine waits for an event loop")
