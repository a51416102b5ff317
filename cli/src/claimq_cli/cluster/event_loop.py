"""An event loop in which the host names of a cluster lead to forwarded ports.

URLs keep the names that pods use, so TLS checks the server's certificate for its real name, and Sentinels may answer
with such names.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from claimq_admin.errors import CommandError

FindPort = Callable[[str, int], Awaitable[int | None]]


class ForwardingEventLoop(asyncio.SelectorEventLoop):
    """asyncio's event loop with another resolver of host names."""

    def __init__(self, find_port: FindPort) -> None:
        """``find_port``: the port on 127.0.0.1 that leads to a host and port, None for a host to look up as usual."""
        super().__init__()
        self._find_port = find_port

    async def getaddrinfo(self, host: Any, port: Any, **hints: Any) -> Any:
        """As asyncio's. Raises OSError if a port cannot be forwarded."""
        if isinstance(host, str) and isinstance(port, int):
            try:
                local = await self._find_port(host, port)
            except CommandError as error:
                raise OSError(str(error)) from error
            if local is not None:
                return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", local))]
        return await super().getaddrinfo(host, port, **hints)
