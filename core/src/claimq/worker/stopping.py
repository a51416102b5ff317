"""Ending a loop of items from a signal handler or another thread, also while it waits for the sidecar's reply."""

from __future__ import annotations

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
