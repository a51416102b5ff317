"""Items that an app has received ahead and has not begun: the sidecar can take them back at any time.

For each the sidecar writes a permit, the item's number in eight bytes, into a FIFO beside the socket. The app reads a
permit before it begins an item, and the sidecar reads the rest to take items back. The kernel gives each permit to one
of them. So what the app has begun is known when it is stopped or computes, and after it was killed.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import stat
import struct
import termios
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from claimq.consuming.engine.chunk_size import LONGEST_WAIT

PERMIT = struct.Struct("=Q")
_MOST_BYTES = 64 * 1024
_NAME = re.compile(r".*\.[0-9a-f]{16}")


def remove_stale(socket: Path) -> None:
    """Removes the FIFOs of a sidecar that was killed, whose socket had this path."""
    for path in socket.parent.glob(f"{socket.name}.*"):
        with suppress(OSError):  # it is gone, or stays without use: each FIFO has a name of its own
            if _NAME.fullmatch(path.name) and stat.S_ISFIFO(path.lstat().st_mode):
                path.unlink()


class Permits:
    """The claims of one session that have permits."""

    def __init__(self, path: Path, mode: int, look: Callable[[bool], None]) -> None:
        """Makes the FIFO, which those may read who may connect to the socket with this mode. Raises OSError.

        ``look`` is called every 250 ms while claims wait, with whether some wait since the last time: the app has
        become slow, and other workers may be free.
        """
        self.path = path
        self.slots = 0
        """On so many of these claims the app works at the same time, at most; see :meth:`resize`."""
        self.count = 0
        """These claims, from their delivery to their end."""
        self._call_look = look
        self._waiting: dict[int, str] = {}
        """Tokens by number, oldest first; some may have been begun since the last look."""
        self._number = 0
        self._timer: asyncio.TimerHandle | None = None
        os.mkfifo(path)
        try:
            path.chmod(mode & 0o444 | stat.S_IWUSR)
            self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        except OSError:
            path.unlink()
            raise

    @property
    def slots_in_use(self) -> int:
        """Slots of the concurrency limit that these claims use."""
        return min(self.count, self.slots)

    def change(self, count: int) -> int:
        """Adds so many claims, or removes them (below 0); returns how many slots more are in use."""
        before = self.slots_in_use
        self.count += count
        return self.slots_in_use - before

    def resize(self, slots: int) -> int:
        """Changes :attr:`slots`; returns how many slots more are in use."""
        before, self.slots = self.slots_in_use, slots
        return self.slots_in_use - before

    def deliver(self, tokens: Sequence[str]) -> int:
        """Writes permits for claims that the app gets now; returns the number of the first.

        Raises BlockingIOError, without effect, if the FIFO is full: the app has written into it.
        """
        first = self._number + 1
        os.write(self._fd, b"".join(map(PERMIT.pack, range(first, first + len(tokens)))))
        self._number += len(tokens)
        self._waiting.update(enumerate(tokens, first))
        self._look_again()
        return first

    def waiting_count(self) -> int:
        """How many of these claims the app has not begun."""
        size = bytearray(4)
        fcntl.ioctl(self._fd, termios.FIONREAD, size)
        return min(int.from_bytes(size, "little") // PERMIT.size, len(self._waiting))

    def begun(self) -> list[str]:
        """The claims that the app has begun since the last call."""
        numbers = list(islice(self._waiting, len(self._waiting) - self.waiting_count()))
        return [self._waiting.pop(number) for number in numbers]

    def take_back(self) -> tuple[list[str], list[str]]:
        """Takes back what the app has not begun, which cannot begin it any more. Returns the tokens of these claims,
        and those that it has begun since the last call of :meth:`begun`.
        """
        permits = b""
        while data := self._read():
            permits += data
        whole = len(permits) // PERMIT.size * PERMIT.size
        numbers = [number for (number,) in PERMIT.iter_unpack(permits[:whole]) if number in self._waiting]
        taken = [self._waiting.pop(number) for number in dict.fromkeys(numbers)]
        begun, self._waiting = list(self._waiting.values()), {}
        return taken, begun

    def _read(self) -> bytes:
        try:
            return os.read(self._fd, _MOST_BYTES)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        """Removes the FIFO, after the last :meth:`take_back`. If it stays, the next sidecar removes it."""
        if self._timer is not None:
            self._timer.cancel()
        os.close(self._fd)
        with suppress(OSError):
            self.path.unlink()

    def _look_again(self) -> None:
        if self._timer is None and self._waiting:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(LONGEST_WAIT, self._look, self._number)

    def _look(self, newest: int) -> None:
        """``newest``: the newest claim at the last look."""
        self._timer = None
        count = self.waiting_count()
        self._call_look(count > 0 and next(islice(self._waiting, len(self._waiting) - count, None)) <= newest)
        self._look_again()
