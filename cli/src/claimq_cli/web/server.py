"""Serves the app in the running event loop, on a socket that already listens."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from starlette.types import ASGIApp
from uvicorn.config import Config
from uvicorn.server import Server

_MOST_REQUESTS = 64


@asynccontextmanager
async def served(app: ASGIApp, listening: socket.socket) -> AsyncGenerator[None]:
    """Serves the app inside the block. Leaves the signals of the process alone."""
    config = Config(
        app, http="h11", ws="none", lifespan="off", interface="asgi3", timeout_keep_alive=30,
        timeout_graceful_shutdown=2, log_config=None, access_log=False, proxy_headers=False, server_header=False,
        date_header=False, limit_concurrency=_MOST_REQUESTS,
    )  # fmt: skip
    config.load()
    server = Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup(sockets=[listening])
    try:
        yield
    finally:
        await server.shutdown(sockets=[listening])
