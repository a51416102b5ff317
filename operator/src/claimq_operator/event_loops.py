"""Runs coroutines in the event loops of other threads; cancelling a call cancels the coroutine there."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

R = TypeVar("R")
_STOP_SECONDS = 5.0


async def run_in_thread(work: Callable[[], Coroutine[Any, Any, R]], name: str) -> R:
    """Runs ``work`` in a new thread with an event loop of its own, which ends with it.

    The loop of the caller may be busy for long without delaying it: the interpreter switches between threads every few
    milliseconds.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name=name, daemon=True)
    thread.start()
    try:
        return await run_in_loop(loop, work)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_STOP_SECONDS)
        if not thread.is_alive():  # else something blocks its loop; it ends with the process
            loop.close()


async def run_in_loop(loop: asyncio.AbstractEventLoop, work: Callable[[], Coroutine[Any, Any, R]]) -> R:
    """Runs ``work`` in the running event loop of another thread, and returns its result or raises its error.

    Returns only after it has ended, also when this call is cancelled.
    """
    here, ended = asyncio.get_running_loop(), asyncio.Event()
    tasks: list[asyncio.Task[R]] = []

    def begin() -> None:
        task = loop.create_task(work())
        tasks.append(task)
        task.add_done_callback(lambda _: here.call_soon_threadsafe(ended.set))

    def cancel() -> None:
        tasks[0].cancel()

    loop.call_soon_threadsafe(begin)
    try:
        await ended.wait()
    except asyncio.CancelledError:
        loop.call_soon_threadsafe(cancel)
        await ended.wait()
        raise
    return tasks[0].result()
