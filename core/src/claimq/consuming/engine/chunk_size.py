"""How many items ``consume`` claims at once where its caller does not say. Pure."""

from __future__ import annotations

AHEAD_SECONDS = 0.05
"""As many items are claimed at once as handlers have begun lately in so many seconds."""
LONGEST_WAIT = 0.25
"""Seconds for which claims may wait for a handler, and between looks for those that have waited for longer."""
_LARGEST = 100


class ChunkSize:
    """The size of the next chunk: 1 at first, so that nothing is claimed ahead of slow handlers. It follows the rate of
    the handlers, at most doubles with each chunk, and has a limit of 100."""

    def __init__(self, now: float) -> None:
        """Times are seconds by a monotonic clock."""
        self.size = 1
        self._begun = 0
        self._since = now

    def note_begun(self) -> None:
        """A handler begins with an item."""
        self._begun += 1

    def next_size(self, now: float) -> int:
        """The size of a chunk that is claimed now."""
        fitting = self._begun * AHEAD_SECONDS / max(now - self._since, 1e-6)
        self.size = max(1, min(int(fitting), 2 * self.size, _LARGEST))
        self._begun, self._since = 0, now
        return self.size

    def reset(self, now: float) -> int:
        """Claims have waited for too long: nothing is claimed ahead until handlers are quick. Returns the size."""
        self.size = 1
        self._begun, self._since = 0, now
        return self.size
