"""Parsers of the server's replies: the client library's, with a timeout by inactivity and a limit of bytes."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any

from redis.asyncio.connection import DefaultParser
from redis.exceptions import ConnectionError as Disconnected
from redis.exceptions import InvalidResponse


class InactivityTimeout:
    """Timeout of a call by inactivity: seconds without a byte sent or received. The whole call may take longer, for
    example for a large reply over a slow link."""

    __slots__ = ("_limit", "_longest")

    def __init__(self, limit: asyncio.Timeout, longest: float) -> None:
        self._limit = limit
        self._longest = longest

    def restart(self) -> None:
        """Restarts the timeout: something was sent or received."""
        end, now = self._limit.when(), asyncio.get_running_loop().time()
        # Not for every byte: a quick call leaves its timer alone.
        if end is not None and now + 0.9 * self._longest > end and not self._limit.expired():
            self._limit.reschedule(now + self._longest)


inactivity: ContextVar[InactivityTimeout | None] = ContextVar(
    "timeout of the call that is read", default=None
)


class ListeningParser(DefaultParser):  # type: ignore[misc, valid-type, unused-ignore]  # chosen by the library
    """The client library's parser; it restarts the timeout when something was received."""

    async def read_from_socket(self) -> Any:
        """As the library's."""
        got = await super().read_from_socket()
        if (timeout := inactivity.get()) is not None:
            timeout.restart()
        return got


class ReplyTooLarge(InvalidResponse):  # type: ignore[misc, unused-ignore]  # as the library's, which has no types
    """A reply exceeds the limit of this program. Its connection is closed."""


class LimitedParser(ListeningParser):
    """A parser that reads at most :attr:`largest_reply` bytes of a reply.

    Objects take up to 20 times the bytes of their reply: each empty list is 4 bytes of it.
    """

    largest_reply = 0
    _received = 0

    async def read_response(self, *args: Any, **options: Any) -> Any:
        """As the library's. Raises ReplyTooLarge, also for a list that is announced as too long for the memory."""
        self._received = 0
        try:
            return await super().read_response(*args, **options)
        except MemoryError as error:
            raise ReplyTooLarge(self._message()) from error

    async def read_from_socket(self) -> Any:
        """As the library's. Raises ReplyTooLarge."""
        got = await self._stream.read(self._read_size)
        if not got:
            raise Disconnected("Connection closed by server.")
        if (timeout := inactivity.get()) is not None:
            timeout.restart()
        self._received += len(got)
        if self._received > self.largest_reply:
            raise ReplyTooLarge(self._message())
        self._reader.feed(got)
        return True

    def _message(self) -> str:
        return f"a reply exceeds {self.largest_reply:,} bytes, the most that this program reads"


def parser_for(largest_reply: int | None) -> type[ListeningParser]:
    """The class of a connection's parser. The library makes an object of it for each connection."""
    if largest_reply is None:
        return ListeningParser
    return type("LimitedParser", (LimitedParser,), {"largest_reply": largest_reply})
