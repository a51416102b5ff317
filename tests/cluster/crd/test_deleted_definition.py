"""The CRD is deleted and created again while the operator runs, on a real API server of the test's own."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial

import pytest

import clusterkit
from testkit import tiers
from testkit.kubernetes.api_server import ApiServer
from testkit.kubernetes.operator_world import World
from testkit.servers.server import Server
from testkit.waiting import eventually_sync


@pytest.fixture
def world(valkey: Server) -> Iterator[World]:
    try:
        api = ApiServer()
    except clusterkit.HarnessError as error:
        tiers.skip_missing(error)
    with closing(api), ExitStack() as stack:
        api.start()
        api.define_queues()
        api.kubectl("create", "namespace", "media")
        yield World(api, valkey, "media", stack)


@pytest.mark.parametrize("namespaces", ["media", ""], ids=["one namespace", "whole cluster"])
def test_queues_are_served_again_after_the_crd_was_deleted_and_created(world: World, namespaces: str) -> None:
    operator = world.operator(CLAIMQ_NAMESPACES=namespaces, CLAIMQ_RESYNC_PERIOD="1h")

    def is_served(queue: str) -> bool:
        return world.condition("Ready", queue) == "True Working"

    world.queue("first")
    eventually_sync(partial(is_served, "first"))
    for turn, queue in enumerate(("second", "third"), start=1):
        world.api.kubectl("delete", "crd", "reliablequeues.claimq.dev")
        eventually_sync(partial(operator.logs, "event=definition_missing", turn))
        eventually_sync(lambda: operator.get("/livez") == (200, "ok"), why="its loops run")
        world.api.define_queues()
        world.queue(queue)
        eventually_sync(partial(is_served, queue))
        assert operator.process.is_running
    assert operator.logs("install the CRD", 2)
    assert not operator.logs("Traceback")
    assert operator.process.terminate() == 0
