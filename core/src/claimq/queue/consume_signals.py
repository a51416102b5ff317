"""Ends runs of ``consume`` on SIGINT and SIGTERM."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from weakref import WeakKeyDictionary

from claimq.queue.consume_run import ConsumeRun

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_runs: WeakKeyDictionary[asyncio.AbstractEventLoop, list[ConsumeRun]] = WeakKeyDictionary()
"""The runs that signals end. An event loop has one handler for a signal, so its runs share it."""


@asynccontextmanager
async def ended_by_signals(run: ConsumeRun) -> AsyncGenerator[None]:
    """Within the context, SIGINT and SIGTERM end the run, and with it the others of its event loop. The last run
    removes the handlers."""
    loop = asyncio.get_running_loop()
    runs = _runs.setdefault(loop, [])
    if not runs:
        _install(loop, runs)
    runs.append(run)
    try:
        yield
    finally:
        runs.remove(run)
        if not runs:
            _remove(loop)


def _install(loop: asyncio.AbstractEventLoop, runs: list[ConsumeRun]) -> None:
    for number in _SIGNALS:
        try:
            loop.add_signal_handler(number, _end_all, runs, number.name)
        except (NotImplementedError, RuntimeError, ValueError):  # not the main thread
            return


def _remove(loop: asyncio.AbstractEventLoop) -> None:
    for number in _SIGNALS:
        with suppress(NotImplementedError):
            loop.remove_signal_handler(number)


def _end_all(runs: list[ConsumeRun], why: str) -> None:
    for run in runs:
        run.end(why)
