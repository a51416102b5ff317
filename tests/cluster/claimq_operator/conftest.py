"""The operator on a real API server without a cluster: it watches, applies and writes; the tests play the kubelet."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

import claimq.blocking
from clusterkit import HarnessError
from testkit import tiers
from testkit.api_server import ApiServer
from testkit.operator_world import World
from testkit.server import Server
from testkit.tree import ROOT
from testkit.waiting import eventually_sync

BUILD_SECONDS = 1800


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "api" in getattr(item, "fixturenames", ()) and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(BUILD_SECONDS))


@pytest.fixture(scope="session")
def api() -> Iterator[ApiServer]:
    """An API server that knows ReliableQueues."""
    try:
        server = ApiServer()
    except HarnessError as error:
        pytest.skip(f"{tiers.MISSING}{error}")
    try:
        server.start()
        server.kubectl("create", "-f", str(ROOT / "crds" / "reliablequeues.claimq.dev.yaml"))
        path = "/apis/claimq.dev/v1alpha1/reliablequeues"
        eventually_sync(lambda: server.request("GET", path)[0] == 200, within=30)
        yield server
    finally:
        server.close()


@pytest.fixture
def world(api: ApiServer, valkey: Server, request: pytest.FixtureRequest) -> Iterator[World]:
    """An empty namespace with a server for queues, and nobody acting in it yet."""
    namespace = f"w{os.getpid()}-{abs(hash(request.node.nodeid)) % 10**8}"
    api.kubectl("create", "namespace", namespace)
    with ExitStack() as stack:
        yield World(api, valkey, namespace, stack)


@pytest.fixture
def items(world: World) -> Iterator[Callable[..., claimq.blocking.BlockingQueue]]:
    """items("thumbs", worker=...) -> the queue of that name on the server."""
    with claimq.blocking.connect(world.redis.tcp_url) as server:

        def named(name: str = "thumbs", worker: str | None = None) -> claimq.blocking.BlockingQueue:
            return server.queue(f"{world.namespace}.{name}", worker=worker)

        yield named
