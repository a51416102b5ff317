"""Items that the loops of a worker have received and not begun. Each has a permit in the session's FIFO.

The sidecar reads permits too, to take items back, and the kernel gives each to one reader. So a loop that has read the
permit of an item may begin it, and the sidecar knows that it has.
"""

from __future__ import annotations

import os
import struct
import threading
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Generic

from claimq.consuming.engine.chunk_size import ChunkSize
from claimq.worker.item import AnyItem

_PERMIT = struct.Struct("=Q")
_MOST_WAIT = 1.0
"""Seconds after which an item is not begun any more. The sidecar takes it back sooner, unless it does not run."""


class Ahead(Generic[AnyItem]):
    """Any thread may call its methods."""

    def __init__(self) -> None:
        self.limit = 0
        """How many items may be here. With 0 the end of a block waits for its verdict."""
        self._lock = threading.Lock()
        self._items: deque[AnyItem] = deque()
        self._late: list[AnyItem] = []
        self._gone: list[AnyItem] = []
        self._size = ChunkSize(time.monotonic())
        self._session: str | None = None
        self._permits: int | None = None
        self._slots = 0
        self._in_work: set[str] = set()

    def begin_session(self, session: str, socket: str, fifo: str | None) -> None:
        """A session is open. ``fifo``: its path as the sidecar sees it, which may have another directory here."""
        self._session = session
        for path in () if fifo is None else (Path(socket).with_name(Path(fifo).name), Path(fifo)):
            try:
                self._permits = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError:
                continue
            return

    def end_session(self) -> list[AnyItem]:
        """The session has ended. Returns the items that are still this worker's, to be given back."""
        with self._lock:
            items = self._take_all()
            self._session, self._slots = None, 0
            if self._permits is not None:
                os.close(self._permits)
                self._permits = None
        return items

    def to_claim(self, session: str, loops: int) -> int:
        """How many items to claim now, for so many loops that will ask for one; 0 without permits."""
        with self._lock:
            there = len(self._items)
            if self._permits is None or session != self._session or there > max(self._size.size // 2, loops):
                return 0
            size = self._size.next_size(time.monotonic()) if self.limit else 1
            return max(min(size, self.limit), loops - there)

    def note_begun(self) -> None:
        """A loop has begun an item."""
        self._size.note_begun()

    def add(self, items: Sequence[AnyItem], session: str, first: int, slots: int) -> list[AnyItem]:
        """Adds items that were claimed for a session. Returns those of a session that has ended: they go back."""
        now = time.monotonic()
        with self._lock:
            if session != self._session:
                return list(items)
            for number, item in enumerate(items, first):
                item.permit, item.received_at = number, now
            self._items.extend(items)
            self._slots = slots
            return []

    @property
    def has_suspect(self) -> bool:
        """Whether the next item has crashed a worker before."""
        items = self._items
        return bool(items) and items[0].crash_count > 0

    def take(self) -> AnyItem | None:
        """The next item, which the caller begins now."""
        with self._lock:
            if not self._items or len(self._in_work) >= self._slots:
                return None
            item = self._next()
            if item is not None:
                self._in_work.add(item.token)
            return item

    def _next(self) -> AnyItem | None:
        while (number := self._read_permit()) is not None:
            while self._items and self._items[0].permit <= number:
                item = self._items.popleft()
                if item.permit < number:
                    self._gone.append(item)
                elif (
                    item.received_at + min(_MOST_WAIT, (item.lease_until - item.claimed_at) / 2)
                    < time.monotonic()
                ):
                    self._late.append(item)
                else:
                    return item
        self._gone += self._items  # the sidecar has taken them back
        self._items.clear()
        self._size.reset(time.monotonic())
        return None

    def _read_permit(self) -> int | None:
        try:
            raw = b"" if self._permits is None else os.read(self._permits, _PERMIT.size)
        except BlockingIOError:
            return None
        return int(_PERMIT.unpack(raw)[0]) if len(raw) == _PERMIT.size else None

    def end_work(self, token: str) -> None:
        """A loop works no longer on this item."""
        self._in_work.discard(token)

    def take_all(self) -> list[AnyItem]:
        """All items, to be given back."""
        with self._lock:
            return self._take_all()

    def _take_all(self) -> list[AnyItem]:
        items: list[AnyItem] = []
        while self._items and (item := self._next()) is not None:
            items.append(item)
        return items

    def gone(self) -> tuple[list[AnyItem], list[AnyItem]]:
        """What is here no longer, since the last call: items that the sidecar has taken back, and items that came too
        late to be begun, which go back.
        """
        gone, self._gone = self._gone, []
        late, self._late = self._late, []
        return gone, late
