"""Stops a command in order at SIGINT, SIGTERM or SIGHUP."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@asynccontextmanager
async def stopping() -> AsyncGenerator[asyncio.Event]:
    """SIGINT, SIGTERM and SIGHUP set the event inside the block: the current call is finished and reported. A second
    signal cancels it.
    """
    loop, task, stop = asyncio.get_running_loop(), asyncio.current_task(), asyncio.Event()

    def note() -> None:
        if stop.is_set() and task is not None:
            task.cancel()
        stop.set()

    numbers = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    for number in numbers:
        loop.add_signal_handler(number, note)
    try:
        yield stop
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
