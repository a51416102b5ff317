"""A connection of the app: HTTP/1.1 as uvicorn speaks it, with bounded heads, and whether the last reply was read."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Callable
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

LONGEST_HEAD = 64 * 1024
"""Bytes that a request line and its headers may have."""
KEY: Final = "claimq.connection"
"""Where the scope of a request has its :class:`Connection`."""
_TOO_LONG = "Request head too large"


class Connection:
    """One connection. ``handed``: claims in the last reply, until the next request shows that it was read."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()
        self.handed: tuple[str, ...] = ()
        self.on_unread: Callable[[tuple[str, ...]], None] | None = None
        self.pid = 0


class AppProtocol(HttpToolsProtocol):
    """uvicorn's protocol, which also tells when a client went away without reading a reply.

    Where the other side closed a Unix socket before it had read everything, the kernel answers a read with
    ECONNRESET and a write with EPIPE: then the last reply was not read, and nobody knows of the claims in it.
    """

    _head = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn narrows it
        """A client has connected."""
        super().connection_made(transport)
        self._connection = Connection()
        self._connection.pid = _peer(transport)

    def data_received(self, data: bytes) -> None:
        """Bytes came; a head that does not end in time is refused."""
        self._head += len(data)
        super().data_received(data)
        if self._head > LONGEST_HEAD and not self.transport.is_closing():
            self._refuse(
                431, "head-too-large", _TOO_LONG, f"a request's head has at most {LONGEST_HEAD} bytes"
            )

    def on_message_begin(self) -> None:
        """A request begins: so the reply before it was read."""
        super().on_message_begin()
        self._connection.handed = ()
        self.scope[KEY] = self._connection  # type: ignore[typeddict-unknown-key]  # ASGI lets servers add keys of their own

    def on_headers_complete(self) -> None:
        """The head is complete; the body has a bound of its own."""
        self._head = -(1 << 62)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request is complete; what comes is another head."""
        self._head = 0
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        super().connection_lost(exc)
        connection = self._connection
        connection.gone.set()
        if exc is not None and connection.handed and connection.on_unread is not None:
            connection.on_unread(connection.handed)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's signature; ours says more
        """What is no HTTP gets a problem document too."""
        self._refuse(
            400,
            "not-http",
            "This is not HTTP/1.1",
            "the request could not be parsed; speak HTTP/1.1 on this socket",
        )

    def _refuse(self, status: int, kind: str, title: str, detail: str) -> None:
        document: dict[str, Any] = {
            "type": f"urn:claimq:problem:{kind}",
            "title": title,
            "status": status,
            "detail": detail,
        }
        body = json.dumps(document).encode() + b"\n"
        head = (
            b"content-type: application/problem+json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
            % len(body)
        )
        self.transport.write(STATUS_LINE[status] + head + body)
        self.transport.close()


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
