"""The operator on a real API server without a cluster: it watches, applies and writes; the tests play the kubelet."""

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack

import pytest

import claimq.blocking
from testkit.kubernetes.api_server import ApiServer
from testkit.kubernetes.operator_world import World
from testkit.servers.patient import open_blocking_server
from testkit.servers.server import Server


@pytest.fixture
def world(api_server: ApiServer, valkey: Server, request: pytest.FixtureRequest) -> Iterator[World]:
    """An empty namespace with a server for queues, and no operator yet."""
    namespace = f"w{os.getpid()}-{abs(hash(request.node.nodeid)) % 10**8}"
    assert api_server.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})[0] == 201
    with ExitStack() as stack:
        yield World(api_server, valkey, namespace, stack)


@pytest.fixture
def items(world: World) -> Iterator[Callable[..., claimq.blocking.BlockingQueue]]:
    """items("thumbs", worker=...) -> the queue of that name on the server."""
    with open_blocking_server(world.redis.tcp_url) as server:

        def named(name: str = "thumbs", worker: str | None = None) -> claimq.blocking.BlockingQueue:
            return server.queue(f"{world.namespace}.{name}", worker=worker)

        yield named


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With a failure: what the operators said, and how the objects are."""
    report = yield
    world = getattr(item, "funcargs", {}).get("world")
    if report.when == "call" and report.failed and isinstance(world, World):
        report.sections.extend(world.reported().items())
    return report
