"""One connection to the app: a request at a time, a response that is bounded in size and time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import httptools

from claimq_sidecar.push.decisions import HEADERS, LONGEST_DETAIL, NoResponse, Response

LONGEST_HEAD: Final = 16 * 1024
"""Bytes that the head of a response may have, together with interim responses before it; and those of its trailers, or
without a part of the body."""
MOST_FIELDS: Final = 100
LONGEST_BODY: Final = 64 * 1024
"""Bytes of a body that are read. A response that is longer counts without the rest, and its connection is closed."""

Ended = Callable[["AppConnection", Response | NoResponse], None]


class AppConnection(asyncio.Protocol):
    """A connection that stays open between requests, while both sides keep to the protocol."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._ended: Ended | None = None
        self._sent: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.idle_since = 0.0
        """When the last response ended, or it was connected, by the loop's clock."""
        self._begin_response()

    def _begin_response(self) -> None:
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self._head_size = self._fields = self._body_size = self._quiet = 0
        self._status = 0
        self._has_head = self._has_length = self._is_complete = self._has_more = self._is_kept = False

    @property
    def is_open(self) -> bool:
        """Whether another request can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    def send(
        self, request: bytes, timeout: float, ended: Ended, sent: Callable[[], None] | None = None
    ) -> None:
        """Sends a request. ``ended`` is called once: with the response, or why there is none; ``sent`` is called once,
        when the whole request is written or has ended."""
        assert self._transport is not None  # noqa: S101 - the caller has connected it
        self._begin_response()
        self._ended, self._sent = ended, sent
        self._timer = self._loop.call_later(timeout, self._end, NoResponse.TIMEOUT)
        self._transport.write(request)
        if self._transport.get_write_buffer_size() == 0:
            self.resume_writing()

    def close(self) -> None:
        """Closes the connection. A request in progress gets no result."""
        self._ended = None
        self._stop_timer()
        if self._transport is not None:
            self._transport.abort()

    # What asyncio calls.
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keeps the transport."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - of TCP and Unix sockets
        transport.set_write_buffer_limits(0)
        self._transport = transport
        self.idle_since = self._loop.time()

    def resume_writing(self) -> None:
        """The whole request is written."""
        sent, self._sent = self._sent, None
        if sent is not None:
            sent()

    def data_received(self, data: bytes) -> None:
        """Reads a part of the response. Bytes without a request are against the protocol."""
        if self._ended is None:
            self.close()
            return
        if not self._has_head:
            self._head_size += len(data)
        self._quiet += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._has_more = True
            self._end(self._response() if self._is_complete else NoResponse.NOT_HTTP)
            return
        is_long = (not self._has_head and self._head_size > LONGEST_HEAD) or self._quiet > 2 * LONGEST_HEAD
        if self._fields > MOST_FIELDS or is_long:
            self._end(NoResponse.NOT_HTTP)
        elif self._is_complete or self._body_size > LONGEST_BODY:
            self._end(self._response())

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends the request: a body without a length ends with the connection."""
        is_whole = self._has_head and not self._has_length and exc is None
        self._end(self._response() if is_whole else NoResponse.BROKEN)

    # What the parser calls.
    def on_message_begin(self) -> None:
        """A second response to the same request: the connection is closed after the first."""
        self._has_more = self._is_complete

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keeps a header that matters."""
        self._fields += 1
        lower = name.lower().decode("latin-1")
        if lower in HEADERS and not self._has_more:
            self._headers[lower] = value.decode("latin-1")
        self._has_length |= lower in ("content-length", "transfer-encoding")

    def on_headers_complete(self) -> None:
        """The end of the head. That of an interim response (such as 100) does not count."""
        if self._has_more:
            return
        self._status = self._parser.get_status_code()
        self._has_head = self._status >= 200
        if not self._has_head:
            self._headers.clear()
            self._has_length = False

    def on_body(self, body: bytes) -> None:
        """Keeps the beginning of the body."""
        self._quiet = 0
        self._body_size += len(body)
        if len(self._body) < LONGEST_DETAIL and not self._has_more:
            self._body += body[: LONGEST_DETAIL - len(self._body)]

    def on_message_complete(self) -> None:
        """The end of the response, or of an interim one."""
        if self._has_head and not self._is_complete:
            self._is_complete = True
            self._is_kept = self._parser.should_keep_alive()  # it forgets that with the message

    def _response(self) -> Response:
        return Response(self._status, self._headers, bytes(self._body))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self, outcome: Response | NoResponse) -> None:
        """Ends the request. The connection is kept if the response has ended properly, and the app keeps it too."""
        self._stop_timer()
        ended, self._ended = self._ended, None
        self.idle_since = self._loop.time()
        transport = self._transport
        is_kept = self._is_kept and not self._has_more and isinstance(outcome, Response)
        if transport is not None and not (is_kept and transport.get_write_buffer_size() == 0):
            transport.abort()
        self.resume_writing()  # if it was not
        if ended is not None:
            ended(self, outcome)
