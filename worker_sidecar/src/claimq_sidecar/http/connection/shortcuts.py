"""Shortcuts between socket and app: a request without the general parser, a response in one write."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from uvicorn.protocols.http.flow_control import CLOSE_HEADER, FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

KEY: Final = "claimq.connection"
"""Where the scope of a request has its :class:`claimq_sidecar.claims.client.Connection`."""
COMPLETE: Final = "claimq.complete"
"""In the scope of a request once its whole body has arrived."""
_FORM: Final = re.compile(
    rb"POST (/v1/[a-z]+) HTTP/1\.1\r\nhost: claimq\r\ncontent-type: application/json\r\n"
    rb"content-length: ([1-9][0-9]{0,5})\r\n\r\n"
)
App = Callable[..., Awaitable[None]]
"""An ASGI app."""
_CONTINUE: Final = b"HTTP/1.1 100 "
_SMALL_BODY: Final = 16 * 1024
_HEADERS: Final = [(b"host", b"claimq"), (b"content-type", b"application/json")]
_STREAMED: Final = (b"/v1/session", b"/v1/stream")


def plain_request(request: bytes) -> tuple[str, bytes] | None:
    """The path and the body if these bytes are exactly one request in that form. The response of its path has a length.

    The general parser reads all others: it is the only one that refuses anything.
    """
    head = _FORM.match(request)
    if head is None or head[1] in _STREAMED:
        return None
    body = request[head.end() :]
    return (head[1].decode("ascii"), body) if len(body) == int(head[2]) else None


class PlainCycle:
    """Such a request and its response. The protocol sees it as one of uvicorn's cycles."""

    def __init__(
        self,
        scope: Mapping[str, Any],
        body: bytes,
        transport: asyncio.Transport,
        flow: FlowControl,
        on_response: Callable[[], None],
    ) -> None:
        """``scope``: the entries of the connection."""
        self.keep_alive = True
        self.disconnected = self.response_started = self.response_complete = False
        self.message_event = asyncio.Event()
        self.transport = transport
        self._scope = scope
        self.body = body
        self._flow = flow
        self._on_response = on_response
        self._start: Mapping[str, Any] = {}

    async def run(self, app: App) -> None:
        """Lets the app answer the request."""
        length = b"%d" % len(self.body)
        scope = {"type": "http", "method": "POST", "headers": [*_HEADERS, (b"content-length", length)]}
        await app({**scope, **self._scope}, self._receive, self._send)
        if not self.response_complete and not self.disconnected:
            self.transport.close()

    async def _receive(self) -> Mapping[str, Any]:
        body, self.body = self.body, b""
        return {"type": "http.request", "body": body, "more_body": False}

    async def _send(self, message: Mapping[str, Any]) -> None:
        """Writes the response, which has one part, at once."""
        if message["type"] == "http.response.start":
            self.response_started = True
            self._start = message
            return
        if self._flow.write_paused:
            await self._flow.drain()
        if self.disconnected:
            return
        headers = self._start["headers"]
        if not self.keep_alive and CLOSE_HEADER not in headers:
            headers = [*headers, CLOSE_HEADER]
        lines = [STATUS_LINE[self._start["status"]], *(b"%s: %s\r\n" % header for header in headers), b"\r\n"]
        self.transport.write(b"".join([*lines, message["body"]]))
        self.response_complete = True
        if CLOSE_HEADER in headers:
            self.transport.close()
        self._on_response()


class HeadWithBody:
    """The transport as one response sees it: its head is sent together with a small body.

    uvicorn writes them one after the other, and the client would be woken for each.
    """

    __slots__ = ("_head", "_is_begun", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""
        self._is_begun = False

    def write(self, data: bytes) -> None:
        """Writes, but keeps the head for the next call."""
        if not self._is_begun and not data.startswith(_CONTINUE):
            self._is_begun, self._head = True, data
            return
        head, self._head = self._head, b""
        if head and len(data) <= _SMALL_BODY:
            data, head = head + data, b""
        if head:
            self._transport.write(head)
        self._transport.write(data)

    def is_closing(self) -> bool:
        """As the transport's."""
        return self._transport.is_closing()

    def close(self) -> None:
        """As the transport's."""
        self._transport.close()
