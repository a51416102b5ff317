"""Background tasks that log their errors, periodic loops, and calls that end when they are cancelled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from claimq.concurrency.backoff import Backoff
from claimq.errors import ClaimqError, StoreUnavailable

_log = logging.getLogger(__name__)
T = TypeVar("T")


_running: set[asyncio.Task[Any]] = set()
"""The tasks of :func:`spawn`: an event loop holds its tasks weakly."""


def spawn(work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
    """Starts a task that logs the exception that ends it, with its traceback."""
    task = asyncio.create_task(work, name=name)
    _running.add(task)
    task.add_done_callback(_ended)
    return task


def _ended(task: asyncio.Task[Any]) -> None:
    _running.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("%s: ended by an unexpected error: %r", task.get_name(), error, exc_info=error)


async def run_every(
    period: float, step: Callable[[], Awaitable[bool]], *, name: str, stop: asyncio.Event
) -> None:
    """Runs ``step`` every ``period`` seconds (less up to 10 % jitter) until ``stop`` is set.

    A step that returns True has more to do and runs again at once. An outage of the server is logged once when it
    begins and once when it ends; in between the pause doubles up to ten periods. Any other exception is a defect: it
    is logged each time, with its traceback, and the loop goes on.
    """
    backoff = Backoff(period, 10 * period, jitter=0.1)
    failures = 0
    while not stop.is_set():
        more = False
        try:
            more = await step()
            if failures:
                _log.info("%s: works again after %d failed attempts", name, failures)
            failures = 0
            backoff.reset()
        except ClaimqError as error:
            failures += 1
            if failures == 1 or not isinstance(error, StoreUnavailable):
                _log.warning("%s: %s", name, error)
        except Exception:  # noqa: BLE001 - logged with its traceback; the loop has to go on
            failures += 1
            _log.exception("%s: unexpected error; trying again", name)
        if more:
            await asyncio.sleep(0)
            continue
        try:
            async with asyncio.timeout(backoff.next()):
                await stop.wait()
        except TimeoutError:
            continue


async def all_or_first_error(works: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Waits for all; after an error or a cancellation cancels the others and waits for them too."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def or_cancelled(call: Awaitable[T]) -> T:
    """The result of the call, or the CancelledError that it has lost: on Python 3.11, a cancellation that meets
    ``asyncio.wait_for`` as its work ends has no effect (fixed in 3.12), and redis-py writes each command with it."""
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    reply = await call
    if task and task.cancelling() > before:
        raise asyncio.CancelledError
    return reply
