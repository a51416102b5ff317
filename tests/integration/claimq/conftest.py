"""A queue on a real server, for tests of what the library does around its scripts."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

import claimq
from claimq import ReliableQueue
from testkit.programs.places import new_directory
from testkit.queues.retries import retrying_at_once
from testkit.servers.patient import open_server
from testkit.servers.resp import Answer, Frames
from testkit.servers.server import Server
from testkit.workers.handlers import Seen


@pytest.fixture
async def store(valkey: Server) -> AsyncIterator[claimq.Server]:
    """A connection to an empty Valkey. It tries for two seconds through an outage, and waits for a reply that is late
    for lack of a processor."""
    async with open_server(valkey.url, retry_for=2.0) as made:
        yield made


@pytest.fixture
def queue(store: claimq.Server) -> ReliableQueue:
    """An empty queue, claimed from as worker w1."""
    return store.queue("q", worker="w1")


@pytest.fixture
async def retries_at_once(queue: ReliableQueue) -> None:
    """The queue's failed items can be claimed again at once."""
    await queue.set_policy(retrying_at_once())


@pytest.fixture
def seen() -> Seen:
    """A handler that notes what it was given."""
    return Seen()


@pytest.fixture
async def fake() -> AsyncIterator[Callable[[Answer], str]]:
    """A server that gives the same answer to everything; the URL of one for each answer."""
    servers: list[asyncio.Server] = []
    directory = new_directory()

    async def listen(answer: Answer, path: Path) -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            frames = Frames()
            while data := await reader.read(65536):
                for _, words in frames.feed(data):
                    assert isinstance(words, list)
                    writer.write(answer([word for word in words if isinstance(word, bytes)]))
            writer.close()

        servers.append(await asyncio.start_unix_server(serve, path))

    starting: list[asyncio.Task[None]] = []

    def start(answer: Answer) -> str:
        path = directory / f"{len(starting)}"
        starting.append(asyncio.ensure_future(listen(answer, path)))
        return f"unix://{path}?db=0"

    yield start
    for server in servers:
        server.close()
    for path in directory.iterdir():
        path.unlink()
    directory.rmdir()
