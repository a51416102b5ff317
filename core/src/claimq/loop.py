"""Loops that go on: a step again and again, whatever one of them meets."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

from claimq.errors import ClaimqError, StoreUnavailable

_log = logging.getLogger(__name__)


async def run_every(
    period: float, step: Callable[[], Awaitable[bool]], *, name: str, stop: asyncio.Event
) -> None:
    """Runs ``step`` every ``period`` seconds (with 10 % jitter, so that many processes spread) until ``stop``
    is set.

    A step that returns True has more to do and runs again at once. A fault of the store is logged once when
    it begins and once when it ends; the pause grows to ten periods meanwhile. Any other exception is a defect
    and ends the loop.
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
        if more:
            await asyncio.sleep(0)
            continue
        pause = period * random.uniform(0.9, 1.1) * min(1 + failures, 10)  # noqa: S311 - spreads load, guards no secret
        try:
            await asyncio.wait_for(stop.wait(), pause)
        except TimeoutError:
            continue
