"""Background work that does not end silently: loops that go on, and tasks that log what ends them."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from claimq.errors import ClaimqError, StoreUnavailable

_log = logging.getLogger(__name__)
T = TypeVar("T")


def in_background(work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
    """A task that does not die silently: an exception that ends it is logged at once, with its traceback. Keep the
    task; the event loop holds it weakly."""
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(_log_defect)
    return task


def _log_defect(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("%s: ended by an unexpected error: %r", task.get_name(), error, exc_info=error)


async def run_every(
    period: float, step: Callable[[], Awaitable[bool]], *, name: str, stop: asyncio.Event
) -> None:
    """Runs ``step`` every ``period`` seconds (with 10 % jitter, so that many processes spread) until ``stop``
    is set.

    A step that returns True has more to do and runs again at once. A fault of the store is logged once when
    it begins and once when it ends; the pause grows to ten periods in between. Any other exception is a defect: it is
    logged each time, with its traceback, and the loop goes on.
    """
    failures = 0
    while not stop.is_set():
        more = False
        try:
            more = await step()
            if failures:
                _log.info("%s: works again after %d failed attempts", name, failures)
            failures = 0
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
        pause = period * random.uniform(0.9, 1.1) * min(1 + failures, 10)  # noqa: S311 - spreads load, guards no secret
        try:
            await asyncio.wait_for(stop.wait(), pause)
        except TimeoutError:
            continue
