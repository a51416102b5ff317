"""The connections to the app: opened when they are needed, kept while they are used."""

from __future__ import annotations

import asyncio
import socket as sockets
from pathlib import Path
from typing import Final

from claimq.concurrency.backoff import Backoff
from claimq_sidecar.push.app_connection import AppConnection

CONNECT_SECONDS: Final = 5.0
_FIRST_PAUSE: Final = 0.005
_LONGEST_PAUSE: Final = 0.2
"""Seconds between attempts to connect while the app's queue of connections is full."""
IDLE_SECONDS: Final = 1.0
"""A connection that was idle for so long is not used again, since its server may close it soon: a request that meets
the server's close would look like the death of the app."""


class AppConnections:
    """Connections to one address. One of them serves one request at a time."""

    def __init__(self, port: int | None, socket: Path | None) -> None:
        """``port`` of 127.0.0.1, used if ``socket`` is None."""
        self._port = port
        self._socket = socket
        self._idle: list[AppConnection] = []
        self._all: set[AppConnection] = set()
        self._pruning: asyncio.TimerHandle | None = None

    def take(self) -> AppConnection | None:
        """The connection that was used last; None if there is none, or it has been idle for too long."""
        oldest = asyncio.get_running_loop().time() - IDLE_SECONDS
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open and connection.idle_since > oldest:
                return connection
            self._drop(connection)
        return None

    def _drop(self, connection: AppConnection) -> None:
        self._all.discard(connection)
        connection.close()

    async def open(self) -> AppConnection:
        """A new connection. Raises OSError, also after five seconds without one."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                if self._socket is None:
                    _, connection = await loop.create_connection(AppConnection, "127.0.0.1", self._port or 0)
                else:
                    connected = await _connected(str(self._socket))
                    _, connection = await loop.create_unix_connection(AppConnection, sock=connected)
        except TimeoutError:
            raise OSError(
                f"the app has not accepted a connection within {CONNECT_SECONDS:g} s; "
                "its queue of connections may be full"
            ) from None
        self._all.add(connection)
        return connection

    def give_back(self, connection: AppConnection) -> None:
        """Keeps a connection for the next request, if it is still open."""
        if not connection.is_open:
            self._all.discard(connection)
            return
        self._idle.append(connection)
        if self._pruning is None:
            self._pruning = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._prune)

    def _prune(self) -> None:
        """Closes connections that have been idle for too long."""
        loop = asyncio.get_running_loop()
        oldest = loop.time() - IDLE_SECONDS
        for connection in [candidate for candidate in self._idle if candidate.idle_since <= oldest]:
            self._idle.remove(connection)
            self._drop(connection)
        self._pruning = loop.call_later(IDLE_SECONDS, self._prune) if self._idle else None

    def close(self) -> None:
        """Closes all connections. Requests in progress get no result."""
        if self._pruning is not None:
            self._pruning.cancel()
        for connection in self._all:
            connection.close()
        self._all.clear()
        self._idle.clear()


async def _connected(path: str) -> sockets.socket:
    """A connected Unix socket. Waits while the app's queue of connections is full, for which connect() has EAGAIN:
    asyncio takes that for a connection in progress, and the writable socket for a connected one."""
    connecting = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
    connecting.setblocking(False)
    backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE)
    try:
        while True:
            try:
                connecting.connect(path)
            except BlockingIOError:
                await asyncio.sleep(backoff.next())
            else:
                return connecting
    except BaseException:
        connecting.close()
        raise
