"""Runs uvicorn in the sidecar's event loop, on a socket that already listens."""

from __future__ import annotations

import socket

from uvicorn.config import Config
from uvicorn.server import Server

from claimq_sidecar.http.protocol import BoundedProtocol
from claimq_sidecar.http.router import App


class HttpServer:
    """One of the two HTTP servers of the sidecar."""

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
        """Starts accepting connections."""
        await self._server.startup(sockets=[self._listening])

    async def stop(self) -> None:
        """Stops accepting connections and closes open ones after their responses."""
        await self._server.shutdown(sockets=[self._listening])
