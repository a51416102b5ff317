"""Detects a client that does not read its response."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.flow_control import FlowControl

from claimq_sidecar.claims.client import Connection


class ResponseFlow(FlowControl):
    """Closes a connection whose client reads nothing of a response for some time."""

    def __init__(self, transport: asyncio.Transport, connection: Connection, unread_seconds: float) -> None:
        super().__init__(transport)
        self._connection = connection
        self._unread_seconds = unread_seconds
        self._timer: asyncio.TimerHandle | None = None

    def pause_writing(self) -> None:
        """The client reads more slowly than its response is written."""
        super().pause_writing()
        self._connection.flushed.clear()
        self._expect_reading()

    def resume_writing(self) -> None:
        """The client has read everything that was written, or the connection was closed."""
        super().resume_writing()
        self._connection.flushed.set()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expect_reading(self) -> None:
        loop = asyncio.get_running_loop()
        unread = self._transport.get_write_buffer_size()
        self._timer = loop.call_later(self._unread_seconds, self._look_whether_read, unread)

    def _look_whether_read(self, unread: int) -> None:
        if self._transport.get_write_buffer_size() < unread:
            self._expect_reading()
        else:
            self._transport.abort()
