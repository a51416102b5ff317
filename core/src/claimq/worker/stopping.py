"""Ending a loop of items from a signal handler or another thread, also while it waits for the sidecar's reply."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

from claimq.worker.backends import Stream


class Stopping:
    """Whether the loops were asked to stop. Without a lock: a signal handler may not wait for one."""

    def __init__(self) -> None:
        self.is_asked = False
        self._waiting: set[Stream] = set()

    def stop(self) -> None:
        """Asks the loops to stop, and ends the exchanges that they wait for."""
        self.is_asked = True
        for stream in list(self._waiting):
            stream.interrupt()

    def add(self, stream: Stream) -> None:
        """A loop waits for a reply on this connection."""
        self._waiting.add(stream)
        if self.is_asked:
            stream.interrupt()

    def discard(self, stream: Stream) -> None:
        """The loop no longer waits for it."""
        self._waiting.discard(stream)

    @contextmanager
    def on_signals(self) -> Generator[None]:
        """In the main thread SIGTERM and SIGINT stop the loops; a second one has its previous effect."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

        def restore() -> None:
            for number, handler in before.items():
                signal.signal(number, handler)

        def stop(_number: int, _frame: FrameType | None) -> None:
            restore()
            self.stop()

        for number in before:
            signal.signal(number, stop)
        try:
            yield
        finally:
            restore()
