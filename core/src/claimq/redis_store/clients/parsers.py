"""Parsers of the server's replies: the client library's, with a timeout by inactivity and a limit of bytes."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from types import TracebackType
from typing import Any

from redis.asyncio.connection import DefaultParser
from redis.exceptions import ConnectionError as Disconnected
from redis.exceptions import InvalidResponse

from claimq.redis_store.bounded_read import largest_reply

_LATE, _GRACE = 0.5, 1.0
"""Seconds. A timer that is later than the first measured this process, which stood still: not the server."""


class InactivityTimeout:
    """Timeout of a call by inactivity: seconds without a byte sent or received. The whole call may take longer, for
    example for a large reply over a slow link.

    A reply that arrived while this process stood still has not been read yet when the timer fires: it gets another
    second. ``async with`` raises TimeoutError, as :func:`asyncio.timeout` does.
    """

    __slots__ = ("_end", "_limit", "_longest", "_loop", "_outer", "_timer")

    def __init__(self, seconds: float, longest: float) -> None:
        """``seconds``: until the first byte; ``longest``: after each byte."""
        self._loop = asyncio.get_running_loop()
        self._longest = longest
        self._limit = asyncio.timeout(None)
        self._end_at(self._loop.time() + seconds)

    async def __aenter__(self) -> None:
        self._outer = inactivity.set(self)
        await self._limit.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._timer.cancel()
        inactivity.reset(self._outer)
        await self._limit.__aexit__(kind, error, traceback)

    def restart(self) -> None:
        """Restarts the timeout: something was sent or received."""
        now = self._loop.time()
        if now + 0.9 * self._longest > self._end:  # not for every byte: a quick call leaves its timer alone
            self._timer.cancel()
            self._end_at(now + self._longest)

    def _end_at(self, end: float) -> None:
        self._end = end
        self._timer = self._loop.call_at(end, self._expire)

    def _expire(self) -> None:
        now = self._loop.time()
        if now - self._end > _LATE:
            self._end_at(now + _GRACE)
        elif not self._limit.expired():
            self._limit.reschedule(now)


inactivity: ContextVar[InactivityTimeout | None] = ContextVar(
    "timeout of the call that is read", default=None
)


class ListeningParser(DefaultParser):  # type: ignore[misc, valid-type, unused-ignore]  # chosen by the library
    """The client library's parser; it restarts the timeout when something was received."""

    async def read_from_socket(self) -> Any:
        """As the library's."""
        has_read = await super().read_from_socket()
        if (timeout := inactivity.get()) is not None:
            timeout.restart()
        return has_read


_TEXT_KINDS = frozenset({b"$", b"=", b"!"})
_ELEMENTS = {b"*": 8, b"~": 8, b">": 8, b"%": 100, b"|": 100}
"""The first byte of a list -> the bytes of memory for each element; of a map, for a key and a value."""
_OBJECTS = {b"*": 64, b"~": 64, b">": 64, b"%": 64, b"|": 64, b"$": 40, b"=": 40, b"!": 400, b"-": 400}
"""The first byte of a reply -> the bytes of its Python object without its text or its elements."""
_OBJECT = 40
"""The bytes of an object of any other kind."""


class ReplyTooLarge(InvalidResponse):  # type: ignore[misc, unused-ignore]  # as the library's, which has no types
    """A reply exceeds the limit of this program. Its connection is closed."""


class Announced:
    """Counts the memory that the replies of a stream take: that of each object, and of the elements and bytes that
    it announces.

    The library's parser makes a list as soon as it is announced, which can block the process for seconds.
    """

    _SHOWN = 32

    def __init__(self) -> None:
        self.size = 0
        """The bytes of memory. What is none, or shared by all, counts as an object too."""
        self._skip = 0
        self._line = b""

    def feed(self, data: bytes) -> None:
        """Reads what was received; it may end anywhere."""
        at = 0
        while at < len(data):
            if self._skip:
                step = min(self._skip, len(data) - at)
                at, self._skip = at + step, self._skip - step
                continue
            end = data.find(b"\n", at)
            if end < 0:
                self._line = (self._line + data[at : at + self._SHOWN])[: self._SHOWN]
                return
            line, self._line, at = self._line + data[at : min(end, at + self._SHOWN)], b"", end + 1
            self._read(line[:1], line[1:].strip())

    def _read(self, kind: bytes, count: bytes) -> None:
        self.size += _OBJECTS.get(kind, _OBJECT)
        if kind in _TEXT_KINDS and count.isdigit():
            self._skip = int(count) + 2
            self.size += self._skip
        elif kind in _ELEMENTS and count.isdigit():
            self.size += int(count) * _ELEMENTS[kind]


class LimitedParser(ListeningParser):
    """A parser that reads at most :attr:`largest_reply` bytes of a reply, and none that takes more memory.

    Objects take up to 100 times the bytes of their reply: each empty list is 4 bytes of it, and an error 3.
    """

    largest_reply = 0
    _received = 0
    _last = (0, 0)
    """What was received last: its bytes, and the memory of its objects."""

    def on_connect(self, connection: Any) -> None:
        """As the library's."""
        super().on_connect(connection)
        self._announced = Announced()

    async def read_response(self, *args: Any, **options: Any) -> Any:
        """As the library's. Raises ReplyTooLarge, also for a list that is announced as too long for the memory."""
        # What came together with the end of the reply before counts for this one.
        has_more = self._reader is not None and self._reader.has_data()
        self._received, self._announced.size = self._last if has_more else (0, 0)
        try:
            return await super().read_response(*args, **options)
        except MemoryError as error:
            raise ReplyTooLarge(self._message()) from error

    async def read_from_socket(self) -> Any:
        """As the library's. Raises ReplyTooLarge."""
        chunk = await self._stream.read(self._read_size)
        if not chunk:
            raise Disconnected("Connection closed by server.")
        if (timeout := inactivity.get()) is not None:
            timeout.restart()
        self._received, before = self._received + len(chunk), self._announced.size
        self._announced.feed(chunk)
        self._last = len(chunk), self._announced.size - before
        if max(self._received, self._announced.size) > largest_reply(self.largest_reply):
            raise ReplyTooLarge(self._message())
        self._reader.feed(chunk)
        return True

    def _message(self) -> str:
        return (
            f"a reply exceeds {largest_reply(self.largest_reply):,} bytes, the most that this program reads"
        )


def parser_for(largest: int | None) -> type[ListeningParser]:
    """The class of a connection's parser. The library makes an object of it for each connection. ``largest``: the bytes
    of a reply."""
    if largest is None:
        return ListeningParser
    return type("LimitedParser", (LimitedParser,), {"largest_reply": largest})
