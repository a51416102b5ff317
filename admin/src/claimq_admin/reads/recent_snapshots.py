"""The last snapshots of a queue, and how fast its totals grew between them. No input, no output, no clock."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from claimq.model import Snapshot

_KEPT = 64


@dataclass(slots=True)
class RecentSnapshots:
    """The last snapshots of a queue. ``seconds``: rates are averages over this time, by the server's clock."""

    seconds: float
    _kept: deque[Snapshot] = field(default_factory=lambda: deque[Snapshot](maxlen=_KEPT))

    def add(self, snapshot: Snapshot) -> None:
        """Adds a snapshot. After a loss of the server's data the rates start over."""
        if self._kept and snapshot.counters["enqueued"] < self._kept[-1].counters["enqueued"]:
            self._kept.clear()
        self._kept.append(snapshot)

    def rate(self, counter: str) -> float:
        """How much a counter grew per second; 0 before the second snapshot."""
        if not self._kept:
            return 0.0
        last = self._kept[-1]
        first = next(snapshot for snapshot in self._kept if last.now - snapshot.now <= self.seconds)
        seconds = last.now - first.now
        return (last.counters[counter] - first.counters[counter]) / seconds if seconds > 0 else 0.0
