"""uvicorn in an event loop of our own, on a socket that is already listening."""

from __future__ import annotations

import socket

from uvicorn.config import Config
from uvicorn.server import Server

from claimq_sidecar.http.protocol import BoundedProtocol
from claimq_sidecar.http.router import App


class HttpServer:
    """One of the two HTTP servers in this event loop, on a socket that is listening already."""

    def __init__(
        self, app: App, listening: socket.socket, protocol: type[BoundedProtocol], idle: int
    ) -> None:
        self._listening = listening
        config = Config(
            app, http=protocol, ws="none", lifespan="off", interface="asgi3", timeout_keep_alive=idle,
            timeout_graceful_shutdown=2, log_config=None, access_log=False, proxy_headers=False,
            server_header=False, date_header=False,
        )  # fmt: skip
        config.load()
        self._server = Server(config)
        self._server.lifespan = config.lifespan_class(config)

    async def start(self) -> None:
        """Takes connections from now on."""
        await self._server.startup(sockets=[self._listening])

    async def stop(self) -> None:
        """Takes no more, and ends those that are open once their replies are out."""
        await self._server.shutdown(sockets=[self._listening])
