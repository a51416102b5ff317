"""Requests as bytes, for clients that break the rules of HTTP."""

from __future__ import annotations

import contextlib
import socket


def sent(connection: socket.socket, raw: bytes) -> bytes:
    """Sends bytes and returns what is received until the server closes the connection."""
    parts: list[bytes] = []
    with connection:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(raw)
        with contextlib.suppress(ConnectionResetError):
            while part := connection.recv(65536):
                parts.append(part)
    return b"".join(parts)
