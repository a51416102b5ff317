"""Telling everybody who waits that something has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


class Notifier:
    """``fire`` wakes all that wait now; who comes later waits for the next one."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._listeners: list[Callable[[], None]] = []

    def listen(self, listener: Callable[[], None]) -> None:
        """Calls it with every pulse."""
        self._listeners.append(listener)

    def fire(self) -> None:
        """Wakes all that wait now."""
        fired, self._event = self._event, asyncio.Event()
        fired.set()
        for listener in self._listeners:
            listener()

    async def wait(self, seconds: float | None = None) -> bool:
        """Waits for the next pulse, at most so long; whether there was one."""
        event = self._event
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            return False
        return True


async def first_of(seconds: float | None, *events: asyncio.Event) -> bool:
    """Waits until one of the events happens, at most so long (None: for ever); whether one has."""
    watching = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        done, _ = await asyncio.wait(watching, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return bool(done)
    finally:
        for watch in watching:
            watch.cancel()


async def unless(work: Awaitable[object], *events: asyncio.Event) -> bool:
    """Waits for ``work`` unless one of the events happens first, which cancels it; whether it was let finish.

    The caller asks ``work`` (a task) for its result; it has ended in any case when this returns.
    """
    running = asyncio.ensure_future(work)
    watching = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait({running, *watching}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            return True
        running.cancel()
        await asyncio.wait({running})
        return False
    except asyncio.CancelledError:
        running.cancel()
        raise
    finally:
        for watch in watching:
            watch.cancel()
