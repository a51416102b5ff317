"""Waiting for a change, and for the first of several events."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable


class Notifier:
    """Wakes every task that waits for a change."""

    def __init__(self) -> None:
        self.version = 0
        """The number of notifications so far."""
        self._event = asyncio.Event()

    def notify(self) -> None:
        """Wakes the tasks that are waiting now. Later calls of :meth:`wait` wait for the next notification."""
        self.version += 1
        event, self._event = self._event, asyncio.Event()
        event.set()

    async def since(self, version: int) -> None:
        """Waits until there has been a notification since ``version``."""
        if self.version == version:
            await self._event.wait()

    async def wait(self, seconds: float | None = None) -> bool:
        """Waits for the next notification, at most ``seconds``; returns whether there was one."""
        event = self._event
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            return False
        return True


async def first_of(seconds: float | None, *events: asyncio.Event) -> bool:
    """Waits until one of the events is set, at most ``seconds`` (None: forever); returns whether one is."""
    watching = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        done, _ = await asyncio.wait(watching, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return bool(done)
    finally:
        for watch in watching:
            watch.cancel()


async def unless(work: Awaitable[object], *events: asyncio.Event) -> bool:
    """Waits for ``work``, and cancels it if one of the events is set first; returns whether it was not cancelled.

    ``work`` has ended when this returns. The caller passes a task and reads its result.
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
