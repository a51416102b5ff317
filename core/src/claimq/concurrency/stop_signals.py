"""SIGINT and SIGTERM end the work of claimq, unless the program, or the server in which it runs, handles them."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_ends: list[Callable[[str], object]] = []
"""What a signal ends. It has one handler in a program, so all work in progress shares it."""
_before: dict[signal.Signals, Any] = {}
"""The handlers of the program, while ours are in their place."""
_taken: set[int] = set()
"""A signal that ends the work in progress: until all of it has ended others are the program's, whatever begins."""


@contextmanager
def ended_by_signals(end: Callable[[str], object], handle_signals: bool | None) -> Generator[None]:
    """Within the context, SIGINT and SIGTERM call ``end`` with the signal's name, and that of all other such contexts.

    With None, signals for which the program has a handler are left to it; with False, both are, and so they are outside
    the main thread. A second signal has its previous effect. ``end`` must be safe in a signal handler.
    """
    if handle_signals is False or not _is_main_thread():
        yield
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        is_free = not _taken and number not in _before
        if is_free and (handle_signals or not _is_handled(number)):
            _before[number] = signal.signal(number, _end_all)
    _ends.append(end)
    try:
        yield
    finally:
        _ends.remove(end)
        if not _ends:
            _taken.clear()
            if _is_main_thread():  # the garbage collector may end a context in another thread
                _restore()


def _end_all(number: int, _frame: FrameType | None) -> None:
    _restore()
    if not _ends:
        signal.raise_signal(number)
        return
    _taken.add(number)
    for end in _ends:
        end(signal.Signals(number).name)


def _restore() -> None:
    while _before:
        number, handler = _before.popitem()
        # The program may have set another one since; one that was set in C (None) cannot be restored.
        if handler is not None and signal.getsignal(number) is _end_all:
            signal.signal(number, handler)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _is_handled(number: signal.Signals) -> bool:
    handler = signal.getsignal(number)
    if handler in (signal.SIG_DFL, signal.SIG_IGN, signal.default_int_handler):
        return False
    # asyncio.run() has a handler of SIGINT, which ends the program.
    of_runner = isinstance(getattr(getattr(handler, "func", None), "__self__", None), asyncio.Runner)
    return not of_runner
