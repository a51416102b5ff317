"""The sidecar process: reads its settings, starts the servers and loops, handles signals, stops everything."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path

from claimq.consuming.engine.permits import remove_stale
from claimq_process.environment import InvalidSettings
from claimq_process.log_lines import LogEvent, write_log
from claimq_sidecar.claims.sidecar import Sidecar
from claimq_sidecar.http.app_api import AppApi
from claimq_sidecar.http.connection.listening import (
    AppSocket,
    CannotListen,
    allow_many_connections,
    open_app_socket,
    open_health_port,
)
from claimq_sidecar.http.connection.protocol import AppProtocol, BoundedProtocol
from claimq_sidecar.http.probes import Probes
from claimq_sidecar.http.router import HttpServer
from claimq_sidecar.push.pusher import Pusher
from claimq_sidecar.settings import SidecarSettings, unknown_variables

_IDLE_SECONDS = 3600
_TERMINATION_MESSAGE = Path("/dev/termination-log")
_log = logging.getLogger("claimq_sidecar")


def main(app_socket: AppSocket | None = None) -> int:
    """Runs the sidecar and returns its exit code. ``app_socket``: the app's socket, if it listens already."""
    try:
        settings = SidecarSettings.from_environment(os.environ)
    except InvalidSettings as error:
        for problem in error.problems:
            print(problem, file=sys.stderr)  # noqa: T201 - logging is not set up yet
        if app_socket is not None:
            app_socket.close()
        return 2
    # Errors can contain payloads: log where they happened, without their messages.
    write_log(settings.log_level, quotes_errors=False, quiet=("uvicorn", "asyncio"))
    for name in unknown_variables(os.environ):
        _log.warning(LogEvent("unknown_variable", name=name))
    _leave_name(settings.worker)
    _begin_collecting()
    try:
        return asyncio.run(run(settings, app_socket))
    except CannotListen as error:
        _log.error(LogEvent("cannot_listen", error=error))
        return 1


def _leave_name(worker: str) -> None:
    """Writes the name where the kubelet reads it after the end of this container: the operator returns its claims."""
    with suppress(OSError), _TERMINATION_MESSAGE.open("r+") as file:  # there is none without a kubelet
        file.write(worker)


def _begin_collecting() -> None:
    """Enables garbage collection. It skips what the modules have made, which stays, and begins after 10,000 new objects
    instead of Python's 700: the items of a stream are some thousand."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)
    gc.enable()


async def run(settings: SidecarSettings, app_socket: AppSocket | None = None) -> int:
    """Runs a sidecar until SIGTERM or SIGINT and the drain after it; returns the exit code. Raises CannotListen.

    Closes ``app_socket``; without one it opens the socket of the settings.
    """
    allow_many_connections()
    if app_socket is None:
        app_socket = open_app_socket(settings.socket, settings.socket_mode)
    try:
        remove_stale(settings.socket)
        health_port = open_health_port(settings.health_host, settings.health_port)
        host, port = health_port.getsockname()[:2]
        sidecar = Sidecar(settings)
        servers = [
            HttpServer(AppApi(sidecar, host, port).app(), app_socket.listening, AppProtocol, _IDLE_SECONDS),
            HttpServer(Probes(sidecar).app(), health_port, BoundedProtocol, 5),
        ]
        return await _serve(sidecar, servers, health_port)
    finally:
        app_socket.close()


async def _serve(sidecar: Sidecar, servers: list[HttpServer], health_port: socket.socket) -> int:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, lambda: sidecar.drain.begin(signalled=True))
    for server in servers:
        await server.start()
    _log_start(sidecar.settings, health_port)
    code = await _run_loops(sidecar)
    for server in servers:
        await server.stop()
    await sidecar.store.close()
    _log.info(LogEvent("stopped", code=code))
    return code


def _log_start(settings: SidecarSettings, health_port: socket.socket) -> None:
    host, port = health_port.getsockname()[:2]
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


async def _run_loops(sidecar: Sidecar) -> int:
    """Runs the sidecar's loops until a drain has ended; returns 1 if one of them has failed instead."""
    work = [sidecar.store.watch(), sidecar.verdicts.renewer.run(), sidecar.expire()]
    if sidecar.settings.push is not None:
        work.append(Pusher(sidecar, sidecar.settings.push).run())
    loops = [asyncio.ensure_future(loop) for loop in work]
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
    return code
