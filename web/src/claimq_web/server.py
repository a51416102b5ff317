"""Serves the app in the running event loop, on a socket that already listens."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager
from typing import cast

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import Server

from claimq_web.users.security import HEALTH

_MOST_REQUESTS, _MOST_CONNECTIONS = 256, 320
"""Requests in progress, and connections: there is always one that a new client can replace."""
_MOST_UNREAD = 64 * 1024 * 1024
"""Bytes of responses that clients have not read. Beyond it the connection with the most of them is closed."""
_REQUEST_SECONDS = 5.0
"""From the first byte of a request, or from the connection, to the end of the request's head."""


class _TimedProtocol(H11Protocol):
    """HTTP/1.1 with a limit on the time of a request, and room for a new connection when all are taken. uvicorn itself
    closes only connections that send nothing after a response.
    """

    _late: asyncio.TimerHandle | None = None
    waits_since = 0.0
    _is_aborted = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Begins to wait for a request. If there are too many connections, closes the one that has been waiting for its
        client for the longest time.
        """
        super().connection_made(transport)
        self._late = self.loop.call_later(_REQUEST_SECONDS, transport.abort)
        self.waits_since = self.loop.time()
        if len(self.connections) >= _MOST_CONNECTIONS:
            _close_longest_waiting(cast("set[_TimedProtocol]", self.connections))

    def abort(self) -> None:
        """Closes it at once: transport.close() would wait until the client has read everything."""
        self._is_aborted = True
        self.transport.abort()

    @property
    def waits_for_client(self) -> bool:
        """Whether its client has to send a request or the rest of one, or to read its response. Not after abort()."""
        if self._is_aborted:
            return False
        if not self.has_request or self.transport.is_closing():
            return True
        return bool(self.cycle.more_body or self.flow.write_paused)

    @property
    def has_request(self) -> bool:
        """Whether it has the head of a request whose response is not complete."""
        is_answered: bool = getattr(self.cycle, "response_complete", True)  # None before the first request
        return not is_answered

    def data_received(self, data: bytes) -> None:
        """Reads, and waits for the rest of a head that is not whole; the app waits for the bodies."""
        super().data_received(data)
        if self.has_request:
            self._end_wait()
            if not self.cycle.more_body:
                self.waits_since = self.loop.time()
        elif self._late is None:
            self._late = self.loop.call_later(_REQUEST_SECONDS, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends the wait."""
        self._end_wait()
        super().connection_lost(exc)

    def _end_wait(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


def _close_longest_waiting(connections: Collection[_TimedProtocol]) -> bool:
    """Closes the connection that has been waiting for its client for the longest time; returns whether there is one."""
    waiting = [connection for connection in connections if connection.waits_for_client]
    if waiting:
        min(waiting, key=lambda connection: connection.waits_since).abort()
    return bool(waiting)


def _close_unread(connections: Collection[_TimedProtocol], size: int) -> None:
    unread = {connection: connection.transport.get_write_buffer_size() for connection in connections}
    while sum(unread.values()) + size > _MOST_UNREAD and any(unread.values()):
        largest = max(unread, key=lambda connection: unread[connection])
        largest.abort()
        del unread[largest]


class _Limited:
    """The app with a limit on the requests in progress. Health checks are answered beyond it: busy is not broken."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._running = 0
        self.make_room: Callable[[], bool] = lambda: False
        """Ends a request that waits for its client, which may never go on; returns whether there is one."""
        self.make_memory: Callable[[int], None] = lambda _: None
        """Ends responses that their clients do not read, until there is room for so many bytes more."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, or refuses it with status 503."""
        is_full = self._running >= _MOST_REQUESTS and scope.get("path") != HEALTH
        if is_full and not self.make_room():
            refusal = PlainTextResponse("too many requests are in progress\n", 503, {"Retry-After": "1"})
            await refusal(scope, receive, send)
            return

        async def send_within(message: Message) -> None:
            self.make_memory(len(message.get("body", b"")))
            await send(message)

        self._running += 1
        try:
            await self._app(scope, receive, send_within)
        finally:
            self._running -= 1


@asynccontextmanager
async def served(app: ASGIApp, listening: socket.socket) -> AsyncGenerator[None]:
    """Serves the app inside the block. Leaves the signals of the process alone."""
    limited = _Limited(app)
    config = Config(
        limited, http=_TimedProtocol, ws="none", lifespan="off", interface="asgi3", timeout_keep_alive=30,
        timeout_graceful_shutdown=2, log_config=None, access_log=False, proxy_headers=False, server_header=False,
        date_header=False,
    )  # fmt: skip
    config.load()
    server = Server(config)
    connections = cast("set[_TimedProtocol]", server.server_state.connections)
    limited.make_room = lambda: _close_longest_waiting(
        [connection for connection in connections if connection.has_request]
    )
    limited.make_memory = lambda size: _close_unread(connections, size)
    server.lifespan = config.lifespan_class(config)
    await server.startup(sockets=[listening])
    try:
        yield
    finally:
        await server.shutdown(sockets=[listening])
        for connection in [*connections]:  # whose clients do not read
            connection.abort()
        await asyncio.sleep(0)  # closes them
