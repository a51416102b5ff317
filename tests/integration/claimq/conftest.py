"""A queue on a real server, for tests of what the library does around its scripts."""

from collections.abc import AsyncIterator

import pytest

import claimq
from claimq import ReliableQueue
from testkit.handlers import Seen
from testkit.patient import patient
from testkit.server import Server


@pytest.fixture
async def store(valkey: Server) -> AsyncIterator[claimq.Server]:
    """A connection to an empty Valkey. It tries for two seconds through an outage, and waits for a reply that is late
    for lack of a processor."""
    async with claimq.connect(settings=patient(valkey.url, retry_for=2.0)) as made:
        yield made


@pytest.fixture
def queue(store: claimq.Server) -> ReliableQueue:
    """An empty queue, claimed from as worker w1."""
    return store.queue("q", worker="w1")


@pytest.fixture
def seen() -> Seen:
    """A handler that notes what it was given."""
    return Seen()
