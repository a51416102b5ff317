"""A queue on a real server, for tests of what the library does around its scripts."""

from collections.abc import AsyncIterator

import pytest

import claimq
from claimq import RedisSettings, ReliableQueue
from testkit.handlers import Seen
from testkit.server import Server


@pytest.fixture
async def store(valkey: Server) -> AsyncIterator[claimq.Server]:
    """A connection to an empty Valkey; it tries for two seconds through an outage."""
    async with claimq.connect(settings=RedisSettings(url=valkey.url, retry_for=2.0)) as made:
        yield made


@pytest.fixture
def queue(store: claimq.Server) -> ReliableQueue:
    """An empty queue, claimed from as worker w1."""
    return store.queue("q", worker="w1")


@pytest.fixture
def seen() -> Seen:
    """A handler that notes what it was given."""
    return Seen()
