"""The requests of a connection that have no response yet, and the bytes that all connections hold for theirs."""

from __future__ import annotations

from collections import deque
from typing import Any, Final
from weakref import WeakSet

from claimq_sidecar.http.connection.arrival import Arrival

MOST_HELD: Final = 4 * 1024 * 1024
"""Bytes that all connections together may hold: heads, requests that wait on their connection, and the parts of bodies
that no handler has taken yet. A connection that exceeds it is closed."""
_REQUEST_BYTES: Final = 4000
"""Memory of a request that waits on its connection, without its headers."""
_LIGHT: Final = 1024
"""A connection that holds no more is not counted: the head of a usual request."""


class Backlog:
    """The request that is answered now, and those that wait for its response."""

    def __init__(self, arrival: Arrival, waiting: deque[tuple[Any, Any]]) -> None:
        """``waiting``: uvicorn's cycles of requests, the newest first."""
        self._arrival = arrival
        self._waiting = waiting
        self._heads: deque[int] = deque()
        self._cycle: Any = None

    def add(self, head_bytes: int) -> None:
        """A head is complete: it is held until the response."""
        self._heads.append(head_bytes + _REQUEST_BYTES * self.is_busy)

    def begin(self, cycle: Any) -> None:
        """A request is answered from now on."""
        self._cycle = cycle

    def end(self) -> None:
        """It has its response."""
        if self._cycle is not None:
            _drop_body(self._cycle)
            self._cycle = None
        if self._heads:
            self._heads.popleft()

    def clear(self) -> None:
        """The connection was closed: frees all at once instead of at a garbage collection."""
        _heavy.discard(self)
        for cycle, _ in self._waiting:
            cycle.scope["headers"] = []
            _drop_body(cycle)
        self._waiting.clear()
        self._heads.clear()
        if self._cycle is not None:
            _drop_body(self._cycle)

    @property
    def is_busy(self) -> bool:
        """Whether a request has no response yet."""
        return self._cycle is not None or bool(self._waiting)

    @property
    def held(self) -> int:
        """Bytes of the connection that no other budget counts."""
        size = sum(self._heads) + self._arrival.quiet + self._arrival.head_bytes
        size += sum(len(cycle.body) for cycle, _ in self._waiting)
        return size if self._cycle is None else size + len(self._cycle.body)

    @property
    def holds_too_much(self) -> bool:
        """Whether this connection holds more than usual, and all together too much."""
        if self.held <= _LIGHT:
            return False
        _heavy.add(self)
        for light in [backlog for backlog in _heavy if backlog.held <= _LIGHT]:
            _heavy.discard(light)
        return sum(backlog.held for backlog in _heavy) > MOST_HELD


_heavy: WeakSet[Backlog] = WeakSet()
"""The connections of this process that hold more than the head of a usual request."""


def _drop_body(cycle: Any) -> None:
    cycle.body = type(cycle.body)()
