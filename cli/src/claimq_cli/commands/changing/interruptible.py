"""Ends a change of a whole queue at a signal, with one line that says what is done."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from claimq.errors import ClaimqError
from claimq_admin.errors import INTERRUPTED, CommandError
from claimq_admin.stop_signals import stopping

T = TypeVar("T")
_SECONDS = 3.0
"""How long the line waits for the server."""


async def interruptible(change: Coroutine[Any, Any, T], state: Callable[[], Awaitable[str]]) -> T:
    """The result of a change. A signal ends it and raises CommandError with the ``state`` that was read after it."""
    async with stopping() as stop:
        work, stop_wait = asyncio.ensure_future(change), asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait({work, stop_wait}, return_when=asyncio.FIRST_COMPLETED)
            work.cancel()
            await asyncio.wait({work})
        finally:
            stop_wait.cancel()
            work.cancel()
        if not work.cancelled():
            return work.result()
        try:
            async with asyncio.timeout(_SECONDS):
                text = await state()
        except (ClaimqError, TimeoutError):
            text = "the server does not respond, so the change may be made, made in part or not made"
        raise CommandError(f"interrupted: {text}", INTERRUPTED)
