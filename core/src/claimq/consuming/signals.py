"""Ends runs of ``consume`` on SIGINT and SIGTERM."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any
from weakref import WeakKeyDictionary

from claimq.consuming.run import ConsumeRun

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_Handlers = dict[signal.Signals, Any]
_runs: WeakKeyDictionary[asyncio.AbstractEventLoop, list[ConsumeRun]] = WeakKeyDictionary()
"""The runs that signals end. An event loop has one handler for a signal, so its runs share it."""
_before: WeakKeyDictionary[asyncio.AbstractEventLoop, _Handlers] = WeakKeyDictionary()
"""The handlers that the program had for these signals."""


@asynccontextmanager
async def ended_by_signals(run: ConsumeRun) -> AsyncGenerator[None]:
    """Within the context, SIGINT and SIGTERM end the run, and with it the others of its event loop. When the last run
    ends, the program's own handlers are restored."""
    loop = asyncio.get_running_loop()
    runs = _runs.setdefault(loop, [])
    if not runs:
        _before[loop] = _install(loop, runs)
    runs.append(run)
    try:
        yield
    finally:
        runs.remove(run)
        if not runs:
            _remove(loop, _before.pop(loop))


def _install(loop: asyncio.AbstractEventLoop, runs: list[ConsumeRun]) -> _Handlers:
    """Installs the handlers, and returns those that :func:`_remove` restores: the program's own. Handlers of the event
    loop, which these replace, and handlers that were set in C cannot be restored."""
    before: _Handlers = {}
    for number in _SIGNALS:
        handler = signal.getsignal(number)
        try:
            loop.add_signal_handler(number, _end_all, runs, number.name)
        except (NotImplementedError, RuntimeError, ValueError):  # not the main thread
            break
        if handler not in (None, signal.getsignal(number)):
            before[number] = handler
    return before


def _remove(loop: asyncio.AbstractEventLoop, before: _Handlers) -> None:
    for number in _SIGNALS:
        with suppress(NotImplementedError):
            loop.remove_signal_handler(number)
    for number, handler in before.items():
        signal.signal(number, handler)


def _end_all(runs: list[ConsumeRun], why: str) -> None:
    for run in runs:
        run.end(why)
