"""States of the world for the contract: a queue on a real server, Valkey 9 and Redis 7 alike."""

from collections.abc import AsyncIterator, Callable

import pytest

import claimq
from claimq import Policy, RedisSettings, ReliableQueue
from testkit.server import Server

WorkerQueue = Callable[[str], ReliableQueue]


@pytest.fixture
async def store(server: Server) -> AsyncIterator[claimq.Server]:
    """A connection to the server under test."""
    async with claimq.connect(settings=RedisSettings(url=server.url, retry_for=2.0)) as made:
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
    await queue.set_policy(Policy(requeue_limit=1))
    return queue
