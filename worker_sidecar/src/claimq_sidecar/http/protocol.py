"""uvicorn's HTTP protocol with limits on clients. On the app's socket it also detects unread responses."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from functools import partial
from typing import Any, ClassVar, Final, cast
from weakref import WeakSet

from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
)

from claimq_sidecar.claims.client import Connection
from claimq_sidecar.http.json_text import to_json
from claimq_sidecar.http.problems import Refusal
from claimq_sidecar.http.shortcuts import COMPLETE, KEY, App, HeadWithBody, PlainCycle, plain_request

LONGEST_HEAD = 16 * 1024
"""Bytes that a request line, its headers and its trailers may have together."""
MOST_FIELDS = 100
"""Headers and trailers that a request may have."""
MOST_PIPELINED = 16
"""Requests that may wait on one connection for the replies before theirs."""
HEAD_SECONDS = 10.0
"""How long a head may take from its first byte to its last."""
MOST_HELD: Final = 4 * 1024 * 1024
"""Bytes that all connections together may hold: heads, requests that wait on their connection, and the parts of bodies
that no handler has taken yet. A connection that exceeds it is closed."""
_FIELD_BYTES: Final = 200
"""Memory of a header beside its text."""
_REQUEST_BYTES: Final = 4000
"""Memory of a request that waits on its connection, without its headers."""
_LIGHT: Final = 1024
"""A connection that holds no more is not counted: the head of a usual request."""
_READ_BYTES = 16 * 1024
_BUFFER_BYTES = 16 * 1024


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
        self._in_head = self._in_message = False
        self._size = self._fields = self._quiet = 0
        self._excess = ""
        self._heads: deque[int] = deque()
        self._answering: Any = None
        self._head_timer: asyncio.TimerHandle | None = None
        self._unread_timer: asyncio.TimerHandle | None = None
        self.waits_since: float = self.loop.time()
        _bound_buffers(transport)
        self._watch()
        if len(self.connections) > self.most_connections and not self._make_room():
            self._refuse(
                "too-many-connections",
                f"all {self.most_connections} connections have a request in progress; use fewer, or try again",
            )  # fmt: skip

    def data_received(self, data: bytes) -> None:
        """Parses bytes; refuses a head that is too large or too slow."""
        self._quiet += len(data)
        super().data_received(data)
        if self._quiet > LONGEST_HEAD and not self.transport.is_closing():
            self._refuse_head()
        self._bound_held()
        self._watch()

    @property
    def held(self) -> int:
        """Bytes of this connection that no other budget counts."""
        size = sum(self._heads) + self._quiet
        if self._in_head:
            size += self._size + _FIELD_BYTES * self._fields
        cycles = {
            id(cycle): cycle
            for cycle in (self._answering, self.cycle, *(cycle_waiting for cycle_waiting, _ in self.pipeline))
        }
        return size + sum(len(cycle.body) for cycle in cycles.values() if cycle is not None)

    @property
    def _holds_too_much(self) -> bool:
        """Whether this connection holds more than usual, and all together too much."""
        if self.held <= _LIGHT:
            return False
        _heavy.add(self)
        for light in [connection for connection in _heavy if connection.held <= _LIGHT]:
            _heavy.discard(light)
        return sum(connection.held for connection in _heavy) > MOST_HELD

    def _bound_held(self) -> None:
        """Closes this connection if all together hold too much."""
        if not self.transport.is_closing() and self._holds_too_much:
            detail = (
                "other connections hold all the memory for requests that have not begun; send less at once"
            )
            self._refuse("busy", detail)

    def on_message_begin(self) -> None:
        """Starts a request, which shows that the client has read the previous response."""
        super().on_message_begin()
        self._in_head = self._in_message = True
        self._size = self._fields = self._quiet = 0
        self.connection.clear_handed()
        self.scope[KEY] = self.connection  # type: ignore[typeddict-unknown-key]  # ASGI lets servers add keys of their own

    def on_url(self, url: bytes) -> None:
        """Counts a part of the request line."""
        self._count(len(url), fields=0)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keeps a header; trailers are only counted."""
        self._count(len(name) + len(value) + 4, fields=1)
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Ends the limit on the head; the body has its own."""
        self._in_head = False
        self._quiet = 0
        is_waiting = self.is_busy
        self._heads.append(self._size + _FIELD_BYTES * self._fields + _REQUEST_BYTES * is_waiting)
        super().on_headers_complete()
        self.flow.pause_reading()  # until the whole body is there, or the handler has room for it
        if self.scope["method"] != "HEAD":  # whose response has no body
            self.cycle.transport = cast("asyncio.Transport", HeadWithBody(self.transport))
        if len(self.pipeline) > MOST_PIPELINED or (is_waiting and self._holds_too_much):
            self._stop_parsing("pipelined")

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._quiet = 0
        super().on_body(body)
        if len(self.cycle.body) > _READ_BYTES:
            self.flow.pause_reading()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)  # pyright: ignore[reportUnknownMemberType]  # as uvicorn types it

    def on_message_complete(self) -> None:
        """The request is complete."""
        self._in_message = False
        self._quiet = 0
        self.scope[COMPLETE] = True  # type: ignore[typeddict-unknown-key]  # likewise
        super().on_message_complete()
        if not self.pipeline:  # so that the end of the connection is seen
            self.flow.resume_reading()

    def on_response_complete(self) -> None:
        """A response was written; the connection is idle."""
        self.waits_since = self.loop.time()
        self._end_answer()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """The client reads more slowly than its response is written."""
        super().pause_writing()
        self.connection.flushed.clear()
        self._expect_reading()

    def resume_writing(self) -> None:
        """The client has read everything that was written."""
        super().resume_writing()
        self.connection.flushed.set()
        self._end_timers(head=False)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection was closed."""
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self._end_timers()
        _heavy.discard(self)
        for cycle in (self._answering, self.cycle):
            if cycle is not None:
                cycle.body = type(cycle.body)()
        self._forget_heads()
        self.connection.flushed.set()
        self.connection.gone.set()

    def timeout_keep_alive_handler(self) -> None:
        """Closes the connection if it has been idle for as long as it may; else looks again when it may have been."""
        remaining = self.waits_since + self.timeout_keep_alive - self.loop.time()
        if self.is_busy or remaining > 0:
            self.timeout_keep_alive_task = self.loop.call_later(
                max(remaining, 1.0), self.timeout_keep_alive_handler
            )
        else:
            super().timeout_keep_alive_handler()

    def _forget_heads(self) -> None:
        """Frees the heads of requests that will not be answered, at once instead of at a garbage collection."""
        for cycle, _ in self.pipeline:
            cycle.scope["headers"] = []
        if self._in_head:
            self.headers = []
        self.pipeline.clear()
        self._heads.clear()

    def _end_answer(self) -> None:
        """The request in progress has its response."""
        self._answering = None
        if self._heads:
            self._heads.popleft()

    @property
    def is_busy(self) -> bool:
        """Whether a request is in progress."""
        cycle: Any = self.cycle  # None before the first request, unlike uvicorn's annotation
        return bool(cycle is not None and not cycle.response_complete)

    def _count(self, size: int, *, fields: int) -> None:
        self._quiet = 0
        self._size += size
        self._fields += fields
        if self._size > LONGEST_HEAD or self._fields > MOST_FIELDS:
            self._stop_parsing("head")

    def _stop_parsing(self, excess: str) -> None:
        self._excess = excess
        raise ValueError(excess)  # the parser stops here, and uvicorn calls send_400_response

    def _watch(self) -> None:
        """Sets the timeout for the rest of a head or for the next request."""
        if self.transport.is_closing():
            return
        if not self._in_head:
            self._end_timers(unread=False)
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self._head_is_late)
        if not self._in_head and not self.is_busy and self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def _end_timers(self, *, head: bool = True, unread: bool = True) -> None:
        if head and self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        if unread and self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None

    def _head_is_late(self) -> None:
        detail = f"a request's head was not complete after {HEAD_SECONDS:g} s; send it in one go"
        self._refuse("head-too-slow", detail)

    def _make_room(self) -> bool:
        """Closes the longest idle connection; false if that is this one."""
        of_one_server = cast("set[BoundedProtocol]", self.connections)
        there = [other for other in of_one_server if not other.transport.is_closing()]
        if len(there) <= self.most_connections:
            return True
        longest = min((other for other in there if not other.is_busy), key=lambda other: other.waits_since)
        if longest is self:
            return False
        longest.transport.abort()
        return True

    def _expect_reading(self) -> None:
        unread = self.transport.get_write_buffer_size()
        self._unread_timer = self.loop.call_later(self.unread_seconds, self._look_whether_read, unread)

    def _look_whether_read(self, unread: int) -> None:
        if self.transport.get_write_buffer_size() < unread:
            self._expect_reading()
        else:
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's signature; ours says more
        """Sends a problem document for data that is not HTTP or exceeds a limit."""
        if self._excess == "head":
            self._refuse_head()
        elif self._excess:  # a response would seem to be that of the first request that waits
            self.transport.close()
        else:
            detail = "the request could not be parsed; send HTTP/1.1"
            self._refuse("not-http", detail)

    def _refuse_head(self) -> None:
        detail = f"a request has at most {MOST_FIELDS} headers and trailers, in at most {LONGEST_HEAD} bytes"
        self._refuse("head-too-large", detail)

    def _refuse(self, kind: str, detail: str) -> None:
        """Closes the connection, after a problem document unless a response is in progress or queued."""
        if not self.is_busy or not (self.cycle.response_started or self.pipeline):
            self.transport.write(_response(Refusal(kind, detail)))
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
        is_between = not (self._in_message or self.is_busy or self.pipeline or self.transport.is_closing())
        plain = plain_request(data) if is_between else None
        if plain is None:
            super().data_received(data)
            return
        path, body = plain
        self.connection.clear_handed()
        scope = {"path": path, KEY: self.connection, COMPLETE: True}
        self._heads.append(0)
        cycle = PlainCycle(scope, body, self.transport, self.flow, self._on_plain_response)
        self._answering = cycle
        self.cycle = cycle  # type: ignore[assignment]  # it has what uvicorn uses of a cycle
        task = self.loop.create_task(cycle.run(cast("App", self.app)))  # pyright: ignore[reportUnknownMemberType]  # as uvicorn types it
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def _on_plain_response(self) -> None:
        if self.pipeline:
            self.on_response_complete()
        else:  # leaves the timer for idle connections alone
            self._end_answer()
            self.waits_since = self.loop.time()

    def eof_received(self) -> None:
        """Records that the client has disconnected: asyncio drops what is written from now on, without an error."""
        self._is_cut_off = self.is_busy
        self.connection.gone.set()
        super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Reports the claims of a response that was not read to its end."""
        was_unread = exc is not None or self._is_cut_off or not self.connection.flushed.is_set()
        super().connection_lost(exc)
        connection = self.connection
        if was_unread and connection.on_unread is not None:
            connection.on_unread(connection.clear_handed())


_heavy: WeakSet[BoundedProtocol] = WeakSet()
"""The connections of this process that hold more than the head of a usual request."""


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
    """The process id at the other end of a Unix socket; 0 where it is not known (another PID namespace, TCP)."""
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
