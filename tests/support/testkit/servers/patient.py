"""Connections for tests: no call fails for lack of a processor."""

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import claimq.blocking
from claimq import RedisSettings, ReliableQueue
from testkit.waiting import PATIENCE


def patient(url: str, **others: Any) -> RedisSettings:
    """A connection that waits for a late answer as long as a test does. Where the test breaks it, calls go on trying
    for as long. ``others``: more settings, or other values of these."""
    waiting: dict[str, Any] = {"retry_for": PATIENCE, "reply_timeout": PATIENCE, "connect_timeout": PATIENCE}
    return RedisSettings(url, **{**waiting, **others})


def open_server(url: str, **settings: Any) -> claimq.Server:
    """A patient connection for coroutines; close it, or use it as a context manager."""
    return claimq.connect(settings=patient(url, **settings))


def open_blocking_server(url: str, **settings: Any) -> claimq.blocking.BlockingServer:
    """The same for tests without an event loop."""
    return claimq.blocking.connect(settings=patient(url, **settings))


@asynccontextmanager
async def open_queue(
    url: str, name: str = "q", *, worker: str | None = None, **settings: Any
) -> AsyncGenerator[ReliableQueue]:
    """A queue on a patient connection."""
    async with open_server(url, **settings) as server:
        yield server.queue(name, worker=worker)


@contextmanager
def open_blocking_queue(
    url: str, name: str = "q", *, worker: str | None = None, **settings: Any
) -> Generator[claimq.blocking.BlockingQueue]:
    """The same for tests without an event loop."""
    with open_blocking_server(url, **settings) as server:
        yield server.queue(name, worker=worker)
