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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic

from claimq.consuming.engine.chunk_size import ChunkSize
from claimq.worker.item import AnyItem

_PERMIT = struct.Struct("=Q")


@dataclass(frozen=True, slots=True)
class Room:
    """What a request may claim: ``count`` items for a session, on ``most`` of which the loops work at once.
    ``asked_at``: by a monotonic clock.
    """

    session: str
    count: int
    most: int
    asked_at: float


class Ahead(Generic[AnyItem]):
    """Any thread may call its methods."""

    def __init__(
        self, note_gone: Callable[[list[AnyItem]], None], give_back: Callable[[list[AnyItem]], None]
    ) -> None:
        """``note_gone``: called with items that the sidecar has taken back. ``give_back``: called with items that came
        too late to be begun.
        """
        self._note_gone = note_gone
        self._give_back = give_back
        self.limit = 0
        """How many items may be here. With 0 the end of a block waits for its verdict."""
        self._lock = threading.Lock()
        self._items: deque[AnyItem] = deque()
        self._size = ChunkSize(time.monotonic())
        self._session: str | None = None
        self._permits: int | None = None
        """The session's FIFO."""
        self._permit: int | None = None
        """A permit that was read before its item came."""
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
        """The session has ended. Returns the items that no loop has begun, to be given back: the sidecar may have died
        before it did so.
        """
        with self._lock:
            items = list(self._items)
            self._items.clear()
            self._session, self._slots = None, 0
            if self._permits is not None:
                os.close(self._permits)
            self._permits = self._permit = None
        return items

    def room(self, session: str, loops: int, most: int) -> Room | None:
        """What to claim now, for so many loops that will ask for an item; None without permits. ``most``: the number of
        all loops.
        """
        now = time.monotonic()
        with self._lock:
            there = len(self._items)
            if self._permits is None or session != self._session or there > max(self._size.size // 2, loops):
                return None
            size = self._size.next_size(now) if self.limit else 1
            count = max(min(size, self.limit), loops - there)
            return Room(session, count, most, now) if count > 0 else None

    def note_begun(self) -> None:
        """A loop has begun an item."""
        self._size.note_begun()

    def add(self, items: Sequence[AnyItem], room: Room, first: int, slots: int) -> list[AnyItem]:
        """Adds items that were claimed with this room. Returns those of a session that has ended: they go back."""
        with self._lock:
            if room.session != self._session:
                return list(items)
            for number, item in enumerate(items, first):
                lease = item.lease_until - item.claimed_at
                item.permit, item.begin_before = number, room.asked_at + lease / 2
            self._items.extend(items)
            self._slots = slots
            return []

    @property
    def is_next_suspect(self) -> bool:
        """Whether the next item has crashed a worker."""
        with self._lock:
            return bool(self._items and self._items[0].crash_count)

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
        """The next item, with its permit. The caller holds the lock."""
        while self._items:
            permit, self._permit = self._permit or self._read_permit(), None
            if permit is None:
                self._note_gone(list(self._items))  # the sidecar has taken them back
                self._items.clear()
                self._size.reset(time.monotonic())
                break
            while self._items and self._items[0].permit < permit:
                self._note_gone([self._items.popleft()])
            if not self._items:
                self._permit = permit  # its item is in a reply that is on its way
                break
            if self._items[0].permit > permit:
                continue  # its reply never came
            item = self._items.popleft()
            if time.monotonic() < item.begin_before:
                item.permit = 0  # from now on a new session takes it over
                return item
            self._give_back([item])
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
            items = list(self._items)
            self._items.clear()
        return items
