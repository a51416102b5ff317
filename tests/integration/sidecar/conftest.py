"""Sidecars as fixtures."""

from collections.abc import Callable, Iterator

import pytest

import claimq.blocking
from claimq.blocking import BlockingQueue
from claimq.policy import Policy
from testkit.server import Server
from testkit.sidecars import Sidecar

StartSidecar = Callable[..., Sidecar]


@pytest.fixture
def start_sidecar() -> Iterator[StartSidecar]:
    """Starts sidecars of the test's own: start_sidecar(url, drain_timeout="1s"). All end with it."""
    mine: list[Sidecar] = []

    def start(url: str, *, wait: bool = True, **settings: str) -> Sidecar:
        mine.append(Sidecar(url, **settings))
        return mine[-1].start(wait=wait)

    yield start
    for made in mine:
        made.close()


@pytest.fixture
def queue(valkey: Server) -> Iterator[BlockingQueue]:
    """The queue `q` on the shared Valkey, for looking at it from outside."""
    with claimq.blocking.connect(valkey.url) as server:
        yield server.queue("q", worker="watcher")


@pytest.fixture
def sidecar(valkey: Server, queue: BlockingQueue, start_sidecar: StartSidecar) -> Sidecar:
    """A sidecar of the queue `q`, as worker `w`."""
    return start_sidecar(valkey.url)


@pytest.fixture
def hasty(queue: BlockingQueue) -> Policy:
    """The queue's leases last 0.6 s."""
    policy = Policy(busy_expiry=0.6)
    queue.set_policy(policy)
    return policy


@pytest.fixture(scope="module")
def shared_sidecar() -> Iterator[Sidecar]:
    """One sidecar with a store of its own for all tests of a module that only ask it the wrong things."""
    with Server("valkey") as store, Sidecar(store.url) as made:
        yield made


@pytest.fixture
def waiting_claims(valkey: Server) -> Callable[[], int]:
    """How many claims wait on the shared Valkey at this moment."""

    def count() -> int:
        reply = valkey.call("INFO", "clients")
        assert isinstance(reply, bytes)
        return int(reply.split(b"blocked_clients:")[1].split()[0])

    return count
