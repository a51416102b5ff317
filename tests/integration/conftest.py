"""Sidecars as fixtures, for the tests of the sidecar and of its client."""

from collections.abc import Iterator

import pytest

from claimq.blocking import BlockingQueue
from claimq.policy import Policy
from testkit.faults.proxy import FaultProxy
from testkit.plugin import ProxyFactory, report_log
from testkit.queues.retries import retrying_at_once
from testkit.servers.patient import open_blocking_queue
from testkit.servers.server import Server
from testkit.workers.sidecars import Sidecar, StartSidecar


@pytest.fixture
def start_sidecar(request: pytest.FixtureRequest) -> Iterator[StartSidecar]:
    """Starts sidecars of the test's own: start_sidecar(url, drain_timeout="1s"). All end with it."""
    mine: list[Sidecar] = []

    def start(url: str, *, wait: bool = True, wrapper: tuple[str, ...] = (), **settings: str) -> Sidecar:
        mine.append(Sidecar(url, **settings))
        mine[-1].wrapper = wrapper
        report_log(request, "sidecar", mine[-1].log)
        return mine[-1].start(wait=wait)

    yield start
    for made in mine:
        made.close()


@pytest.fixture
def proxy(valkey: Server, start_proxy: ProxyFactory) -> FaultProxy:
    """A fault proxy before the shared Valkey."""
    return start_proxy(valkey)


@pytest.fixture
def queue(valkey: Server) -> Iterator[BlockingQueue]:
    """The queue `q` on the shared Valkey, for looking at it from outside, also while a busy server answers late."""
    with open_blocking_queue(valkey.url, worker="watcher") as queue:
        yield queue


@pytest.fixture
def retries_at_once(queue: BlockingQueue) -> None:
    """The queue's failed items can be claimed again at once."""
    queue.set_policy(retrying_at_once())


@pytest.fixture
def sidecar(valkey: Server, queue: BlockingQueue, start_sidecar: StartSidecar) -> Sidecar:
    """A sidecar of the queue `q`, as worker `w`."""
    return start_sidecar(valkey.url)


@pytest.fixture
def hasty(queue: BlockingQueue) -> Policy:
    """The queue's leases last 0.6 s: for claims that are not renewed."""
    policy = retrying_at_once(busy_expiry=0.6)
    queue.set_policy(policy)
    return policy


@pytest.fixture
def brief(queue: BlockingQueue) -> Policy:
    """The queue's leases last 15 s: for claims that are renewed, which a busy machine does in this time."""
    policy = retrying_at_once(busy_expiry=15.0)
    queue.set_policy(policy)
    return policy
