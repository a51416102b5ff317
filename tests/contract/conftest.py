"""States of the world for the contract: a queue on a real server, Valkey 9 and Redis 7 alike."""

import time
from collections.abc import AsyncIterator, Callable

import pytest
import redis.asyncio

import claimq
from claimq import ReliableQueue
from testkit.queues.clock import Near
from testkit.queues.frozen_clock import BEGIN_MS, FrozenClock
from testkit.queues.retries import retrying_at_once
from testkit.servers.patient import open_server
from testkit.servers.server import Server
from testkit.waiting import PATIENCE

WorkerQueue = Callable[[str], ReliableQueue]


@pytest.fixture
async def store(request: pytest.FixtureRequest, server: Server) -> AsyncIterator[claimq.Server]:
    """A connection to the server under test. It waits for a server that does not answer for lack of a processor, and
    gives up soon on one that is gone. With the marker frozen_clock(True), the clock of the queue q stands still."""
    marker = request.node.get_closest_marker("frozen_clock")
    if marker and marker.args[0]:
        async with (
            redis.asyncio.Redis(unix_socket_path=str(server.unix_path), socket_timeout=PATIENCE) as client,
            claimq.connect(client=FrozenClock(client, q=BEGIN_MS)) as made,
        ):
            yield made
        return
    async with open_server(server.url, retry_for=2.0) as made:
        yield made


@pytest.fixture
def queue(store: claimq.Server) -> ReliableQueue:
    """An empty queue, claimed from as worker w1."""
    return store.queue("q", worker="w1")


@pytest.fixture
def other_worker(store: claimq.Server) -> ReliableQueue:
    """The same queue, claimed from as worker w2."""
    return store.queue("q", worker="w2")


@pytest.fixture
async def strict(queue: ReliableQueue) -> ReliableQueue:
    """The queue with a requeue limit of 1: the second failure goes to failed."""
    await queue.set_policy(retrying_at_once(requeue_limit=1))
    return queue


@pytest.fixture
async def retries_at_once(queue: ReliableQueue) -> None:
    """The queue's failed items can be claimed again at once."""
    await queue.set_policy(retrying_at_once())


@pytest.fixture
def near() -> Near:
    """Compares seconds on a queue's clock, which also counts how long the test itself takes on a busy machine."""
    began = time.monotonic()
    return lambda seconds: pytest.approx(seconds, abs=0.5 + time.monotonic() - began)
