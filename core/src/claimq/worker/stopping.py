"""Ending a loop of items from a signal handler or another thread, also while it waits for the sidecar's
reply.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

from claimq.worker.connection import Connection


class Stopping:
    """Whether the loop was asked to stop. Plain attributes: a signal handler may not wait for a lock."""

    def __init__(self) -> None:
        self.asked = False
        self._waiting: Connection | None = None

    def stop(self) -> None:
        """Asks the loop to stop, and ends the exchange that it waits for."""
        self.asked = True
        waiting = self._waiting
        if waiting is not None:
            waiting.interrupt()

    def waits_on(self, connection: Connection | None) -> None:
        """The loop waits for a reply on this connection from now on (None: not any more)."""
        self._waiting = connection
        if connection is not None and self.asked:
            connection.interrupt()

    @contextmanager
    def on_signals(self) -> Generator[None]:
        """In the main thread SIGTERM and SIGINT stop the loop; a second one does what it did before."""
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
