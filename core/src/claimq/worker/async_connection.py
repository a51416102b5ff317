"""HTTP/1.1 on a Unix socket for an event loop: the counterpart of :mod:`claimq.worker.connection`."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from claimq.worker.errors import SidecarUnavailable, StoreUnavailable
from claimq.worker.wire import (
    BrokenReply,
    Head,
    cannot_connect,
    no_answer,
    read_object,
    refusal,
    request,
    split_head,
)

_LONGEST_PAUSE = 1.0


class AsyncConnection:
    """One connection, for one exchange at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.is_reusable = True

    @classmethod
    async def open(cls, path: str, timeout: float) -> AsyncConnection:
        """Connects. Raises OSError."""
        async with asyncio.timeout(timeout):
            reader, writer = await asyncio.open_unix_connection(path, limit=1024 * 1024)
        return cls(reader, writer)

    async def exchange(self, raw: bytes, answer_in: float) -> tuple[int, bytes]:
        """Sends a request; returns the status and the body of the reply. Raises OSError; the connection is
        spent then.
        """
        self.is_reusable = False
        async with asyncio.timeout(answer_in):
            await self.send(raw)
            head, body = await self.head()
            if head.length is None:
                raise BrokenReply("the reply has no length; is this socket the sidecar's?")
            parts, missing = [body], head.length - len(body)
            while missing > 0:
                parts.append(await self.receive())
                missing -= len(parts[-1])
        self.is_reusable = not head.closes and missing == 0
        return head.status, b"".join(parts)

    async def send(self, raw: bytes) -> None:
        """Sends bytes; where the sidecar takes no more, its reply may say why."""
        self._writer.write(raw)
        try:
            await self._writer.drain()
        except (BrokenPipeError, ConnectionResetError):
            pass

    async def head(self) -> tuple[Head, bytes]:
        """The head of a reply and the first bytes after it. Raises OSError."""
        buffer = b""
        while (found := split_head(buffer)) is None:
            buffer += await self.receive()
        return found

    async def receive(self) -> bytes:
        """Some bytes. Raises OSError, also for the end of the stream."""
        data = await self._reader.read(256 * 1024)
        if not data:
            raise BrokenReply("the connection ended before the reply was complete")
        return data

    def is_stale(self) -> bool:
        """Whether the sidecar has closed this idle connection."""
        return self._reader.at_eof() or self._writer.is_closing()

    def close(self) -> None:
        """Closes it at once."""
        self._writer.transport.abort()


class AsyncConnections:
    """Calls from any number of tasks of one event loop, each over a connection of its own for as long as it
    lasts.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._idle: list[AsyncConnection] = []
        self._closed = False

    async def call(
        self, path: str, body: bytes, *, answer_in: float, try_for: float = 0.0, repeatable: bool = True
    ) -> tuple[dict[str, Any], bool]:
        """Makes a call; see :meth:`claimq.worker.connection.Connections.call`. Cancelling it ends the
        connection.
        """
        raw = request(path, body)
        loop = asyncio.get_running_loop()
        give_up = loop.time() + try_for
        pause, sent = 0.02, False
        while True:
            try:
                connection = await self._take(answer_in)
            except OSError as error:
                failure: SidecarUnavailable | StoreUnavailable = SidecarUnavailable(
                    cannot_connect(self.path, error)
                )
                failure.__cause__ = error
            else:
                try:
                    return await self._exchange(connection, raw, answer_in), sent
                except OSError as error:
                    failure, sent = no_answer(self.path, error, known=repeatable), True
                    if not repeatable:
                        raise failure from error
                except StoreUnavailable as error:
                    failure, sent = error, True
            if loop.time() + pause > give_up:
                raise failure
            await asyncio.sleep(random.uniform(pause / 2, pause))  # noqa: S311 - spreads tries, guards no secret
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def _exchange(self, connection: AsyncConnection, raw: bytes, answer_in: float) -> dict[str, Any]:
        try:
            status, answer = await connection.exchange(raw, answer_in)
        finally:
            if connection.is_reusable and not self._closed:
                self._idle.append(connection)
            else:
                connection.close()
        if status != 200:
            raise refusal(status, answer)
        return read_object(answer)

    async def _take(self, timeout: float) -> AsyncConnection:
        if self._closed:
            raise SidecarUnavailable("this worker is closed; connect anew")
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_stale():
                return connection
            connection.close()
        return await AsyncConnection.open(self.path, timeout)

    async def probe(self, within: float) -> None:
        """Waits until somebody accepts connections. Raises SidecarUnavailable that says why nobody does."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + within
        while True:
            try:
                self._idle.append(await self._take(within))
            except OSError as error:
                if loop.time() > give_up:
                    raise SidecarUnavailable(cannot_connect(self.path, error)) from error
                await asyncio.sleep(0.05)
            else:
                return

    def close(self) -> None:
        """Closes the idle connections; calls under way end by themselves."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()
