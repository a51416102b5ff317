"""uvicorn's HTTP protocol with limits on clients. On the app's socket it also detects unread responses."""

from __future__ import annotations

import asyncio
import socket
import struct
from functools import partial
from typing import Any, ClassVar, Final, cast

from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
)

from claimq_sidecar.claims.client import Connection
from claimq_sidecar.http.connection.arrival import HEAD_SECONDS, LONGEST_HEAD, MOST_FIELDS, Arrival
from claimq_sidecar.http.connection.backlog import Backlog
from claimq_sidecar.http.connection.response_flow import ResponseFlow
from claimq_sidecar.http.connection.shortcuts import (
    COMPLETE,
    KEY,
    App,
    HeadWithBody,
    PlainCycle,
    plain_request,
)
from claimq_sidecar.http.json_text import to_json
from claimq_sidecar.http.problems import Refusal

MOST_PIPELINED = 16
"""Requests that may wait on one connection for the replies before theirs."""
_READ_BYTES = 16 * 1024
_BUFFER_BYTES = 16 * 1024
_HEAD_TOO_LARGE: Final = Refusal(
    "head-too-large",
    f"a request has at most {MOST_FIELDS} headers and trailers, in at most {LONGEST_HEAD} bytes",
)
_HEAD_TOO_SLOW: Final = Refusal(
    "head-too-slow", f"a request's head was not complete after {HEAD_SECONDS:g} s; send it in one go"
)
_NOT_HTTP: Final = Refusal("not-http", "the request could not be parsed; send HTTP/1.1")
_BUSY: Final = Refusal(
    "busy",
    "other connections hold all the memory for requests that have not begun; send less at once",
)


class BoundedProtocol(HttpToolsProtocol):
    """Adds limits that uvicorn does not have: on heads, trailers, pipelined requests and silent clients."""

    unread_seconds: ClassVar[float] = 60.0
    """A connection whose client reads nothing of a response for this long is closed."""
    most_connections: ClassVar[int] = 64
    """When one more is opened, the connection that has been idle longest is closed."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn narrows it
        """Closes the longest idle connection above the limit; refuses this one if none is idle."""
        super().connection_made(transport)
        self.connection = Connection()
        self.flow = ResponseFlow(transport, self.connection, self.unread_seconds)
        self.arrival = Arrival()
        self.backlog = Backlog(self.arrival, self.pipeline)
        self.waits_since: float = self.loop.time()
        _bound_buffers(transport)
        self._watch()
        if len(self.connections) > self.most_connections and not _make_room(self):
            detail = (
                f"all {self.most_connections} connections have a request in progress; use fewer, or try again"
            )
            self._refuse(Refusal("too-many-connections", detail))

    def data_received(self, data: bytes) -> None:
        """Parses bytes; refuses a head that is too large or too slow."""
        self.arrival.quiet += len(data)
        super().data_received(data)
        if self.arrival.quiet > LONGEST_HEAD:
            self._refuse(_HEAD_TOO_LARGE)
        elif self.backlog.holds_too_much:
            self._refuse(_BUSY)
        self._watch()

    def on_message_begin(self) -> None:
        """Starts a request, which shows that the client has read the previous response."""
        super().on_message_begin()
        self.arrival.begin()
        self.connection.clear_handed()
        self.scope[KEY] = self.connection  # type: ignore[typeddict-unknown-key]  # ASGI lets servers add keys of their own

    def on_url(self, url: bytes) -> None:
        """Counts a part of the request line."""
        self.arrival.add(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keeps a header; trailers are only counted."""
        self.arrival.add(len(name) + len(value) + 4, fields=1)
        if self.arrival.in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Ends the limit on the head; the body has its own."""
        must_wait = self.backlog.is_busy
        self.backlog.add(self.arrival.end_head())
        super().on_headers_complete()
        self.flow.pause_reading()  # until the whole body is there, or the handler has room for it
        if self.scope["method"] != "HEAD":  # whose response has no body
            self.cycle.transport = cast("asyncio.Transport", HeadWithBody(self.transport))
        if len(self.pipeline) > MOST_PIPELINED or (must_wait and self.backlog.holds_too_much):
            self.transport.close()  # a response would seem to be that of the first request that waits
            raise ValueError("too many requests wait")  # so that the parser stops here

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self.arrival.quiet = 0
        super().on_body(body)
        if len(self.cycle.body) > _READ_BYTES:
            self.flow.pause_reading()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self.backlog.begin(cycle)
        super()._start_asgi_task(cycle, app)  # pyright: ignore[reportUnknownMemberType]  # as uvicorn types it

    def on_message_complete(self) -> None:
        """The request is complete."""
        self.arrival.end()
        self.scope[COMPLETE] = True  # type: ignore[typeddict-unknown-key]  # likewise
        super().on_message_complete()
        if not self.pipeline:  # so that the end of the connection is seen
            self.flow.resume_reading()

    def on_response_complete(self) -> None:
        """A response was written; the connection is idle."""
        self.waits_since = self.loop.time()
        self.backlog.end()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection was closed."""
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self.arrival.end_timer()
        self.backlog.clear()
        if self.arrival.in_head:
            self.headers = []
        self.connection.gone.set()

    def timeout_keep_alive_handler(self) -> None:
        """Closes the connection if it has been idle for as long as it may. Else looks again when it may have been."""
        remaining = self.waits_since + self.timeout_keep_alive - self.loop.time()
        if self.backlog.is_busy or remaining > 0:
            self.timeout_keep_alive_task = self.loop.call_later(
                max(remaining, 1.0), self.timeout_keep_alive_handler
            )
        else:
            super().timeout_keep_alive_handler()

    def _watch(self) -> None:
        """Sets the timeout for the rest of a head or for the next request."""
        if self.transport.is_closing():
            return
        self.arrival.watch(partial(self._refuse, _HEAD_TOO_SLOW))
        is_idle = not self.arrival.in_head and not self.backlog.is_busy
        if is_idle and self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's signature; ours says more
        """Sends a problem document for data that is not HTTP or exceeds a limit."""
        self._refuse(_HEAD_TOO_LARGE if self.arrival.is_too_large else _NOT_HTTP)

    def _refuse(self, refusal: Refusal) -> None:
        """Closes the connection, after a problem document unless a response is in progress or queued."""
        if self.transport.is_closing():
            return
        if not self.backlog.is_busy or not (self.cycle.response_started or self.pipeline):
            self.transport.write(_response(refusal))
        self.transport.close()


class AppProtocol(BoundedProtocol):
    """A connection of the app. It reports a client that disconnected without reading its response.

    Where the other side closed a Unix socket before it had read everything, the kernel answers a read with
    ECONNRESET and a write with EPIPE: then the last reply was not read, and the claims in it are not known there.
    """

    most_connections = 1024

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn narrows it
        """Records the process id of the client."""
        super().connection_made(transport)
        self.connection.pid = _peer(transport)
        self.connection.set_send_buffer = partial(_set_buffer, transport, socket.SO_SNDBUF)
        self._is_cut_off = False

    def data_received(self, data: bytes) -> None:
        """Answers a request in the form of ``claimq.worker`` without the parser, which reads everything else."""
        is_between = not (self.arrival.in_message or self.backlog.is_busy or self.transport.is_closing())
        plain = plain_request(data) if is_between else None
        if plain is None:
            super().data_received(data)
            return
        path, body = plain
        self.connection.clear_handed()
        scope = {"path": path, KEY: self.connection, COMPLETE: True}
        self.backlog.add(0)
        cycle = PlainCycle(scope, body, self.transport, self.flow, self._on_plain_response)
        self.backlog.begin(cycle)
        self.cycle = cycle  # type: ignore[assignment]  # it has what uvicorn uses of a cycle
        task = self.loop.create_task(cycle.run(cast("App", self.app)))  # pyright: ignore[reportUnknownMemberType]  # as uvicorn types it
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def _on_plain_response(self) -> None:
        if self.pipeline:
            self.on_response_complete()
        else:  # leaves the timer for idle connections alone
            self.backlog.end()
            self.waits_since = self.loop.time()

    def eof_received(self) -> None:
        """Records that the client has disconnected: asyncio drops what is written from now on, without an error."""
        self._is_cut_off = self.backlog.is_busy
        self.connection.gone.set()
        super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Reports the claims of a response that was not read to its end."""
        was_unread = exc is not None or self._is_cut_off or not self.connection.flushed.is_set()
        super().connection_lost(exc)
        connection = self.connection
        if was_unread and connection.on_unread is not None:
            connection.on_unread(connection.clear_handed())


def _make_room(newest: BoundedProtocol) -> bool:
    """Closes the connection of this server that has been idle longest; false if that is the newest."""
    of_one_server = cast("set[BoundedProtocol]", newest.connections)
    there = [other for other in of_one_server if not other.transport.is_closing()]
    if len(there) <= newest.most_connections:
        return True
    idle = (other for other in there if not other.backlog.is_busy)
    longest = min(idle, key=lambda other: other.waits_since)
    if longest is newest:
        return False
    longest.transport.abort()
    return True


def _bound_buffers(transport: asyncio.Transport) -> None:
    """Sets small buffers: unread responses stay in this process, where they are counted, not in the kernel."""
    transport.max_size = _READ_BYTES  # type: ignore[attr-defined]  # asyncio's own attribute: what one read takes
    transport.set_write_buffer_limits(high=0)
    _set_buffer(transport, socket.SO_SNDBUF, _BUFFER_BYTES)
    _set_buffer(transport, socket.SO_RCVBUF, _BUFFER_BYTES)


def _set_buffer(transport: asyncio.Transport, which: int, size: int) -> None:
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, which, size)


def _response(refusal: Refusal) -> bytes:
    body = to_json(refusal.document()) + b"\n"
    head = b"content-type: application/problem+json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
    return STATUS_LINE[refusal.status] + head % len(body) + body


def _peer(transport: asyncio.Transport) -> int:
    """The process id at the other end of a Unix socket. 0 where it is not known (another PID namespace, TCP)."""
    sock = transport.get_extra_info("socket")
    if sock is None or sock.family != socket.AF_UNIX:
        return 0
    try:
        pid, _, _ = struct.unpack(
            "3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        )
    except OSError:
        return 0
    return int(pid)
