"""Starts everything, takes the signals, ends everything."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket

from uvicorn.config import Config
from uvicorn.server import Server

from claimq_sidecar.asgi import App
from claimq_sidecar.connection import AppProtocol, BoundedProtocol
from claimq_sidecar.listening import (
    allow_many_connections,
    identity,
    open_app_socket,
    open_health_port,
    remove_app_socket,
)
from claimq_sidecar.probes import Probes
from claimq_sidecar.settings import SidecarSettings
from claimq_sidecar.sidecar import Sidecar
from claimq_sidecar.socket_api import SocketApi
from claimq_spec.log_lines import LogEvent

_IDLE_SECONDS = 3600
_log = logging.getLogger("claimq_sidecar")


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


async def run(settings: SidecarSettings) -> int:
    """Runs a sidecar until SIGTERM or SIGINT has drained it; returns the exit code. Raises CannotListen."""
    allow_many_connections()
    app_socket = open_app_socket(settings.socket, settings.socket_mode)
    made = identity(settings.socket)
    try:
        health_port = open_health_port(settings.health_host, settings.health_port)
        host, port = health_port.getsockname()[:2]
        sidecar = Sidecar(settings)
        servers = [
            HttpServer(SocketApi(sidecar, host, port).app(), app_socket, AppProtocol, _IDLE_SECONDS),
            HttpServer(Probes(sidecar).app(), health_port, BoundedProtocol, 5),
        ]
        return await _serve(sidecar, servers, health_port)
    finally:
        app_socket.close()
        remove_app_socket(settings.socket, made)


async def _serve(sidecar: Sidecar, servers: list[HttpServer], health_port: socket.socket) -> int:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, lambda: sidecar.begin_drain(signalled=True))
    host, port = health_port.getsockname()[:2]
    for server in servers:
        await server.start()
    settings = sidecar.settings
    _log.info(
        LogEvent(
            "serving",
            queue=settings.queue,
            worker=settings.worker,
            socket=settings.socket,
            health_host=host,
            health_port=port,
        )
    )
    loops = [
        asyncio.ensure_future(one) for one in (sidecar.store.watch(), sidecar.renew(), sidecar.keep_house())
    ]
    leaving = asyncio.ensure_future(sidecar.left())
    await asyncio.wait({leaving, *loops}, return_when=asyncio.FIRST_COMPLETED)
    code = 0 if leaving.done() and leaving.exception() is None else 1
    if code:
        failed = next(task for task in (leaving, *loops) if task.done())
        error = failed.exception()
        _log.error(LogEvent("defect", why="a loop ended", error=error and repr(error)), exc_info=error)
        sidecar.leaving.set()
    for task in (*loops, leaving):
        task.cancel()
    await asyncio.gather(*loops, leaving, return_exceptions=True)
    for server in servers:
        await server.stop()
    await sidecar.store.close()
    _log.info(LogEvent("ended", code=code))
    return code
