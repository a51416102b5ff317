"""One reconciler for each queue."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from claimq_kubernetes.budgets import Budgets
from claimq_kubernetes.port import Cluster, ClusterUnavailable, Json, Kind
from claimq_operator.election.namespace_leases import NamespaceLeases
from claimq_operator.reconcile.context import Context
from claimq_operator.reconcile.controller import Controller
from claimq_operator.redis.connections import RedisConnections
from claimq_operator.redis.ownership import Ownership
from claimq_operator.settings import OperatorSettings
from claimq_operator.telemetry.event_recorder import EventRecorder
from claimq_operator.telemetry.liveness import Liveness
from claimq_operator.telemetry.metrics import Metrics
from claimq_operator.watch.cache import Cache
from testkit.waiting import eventually


class Silent:
    """A cluster whose API server responds only to the operator that asks for the Lease of a namespace."""

    async def get(self, kind: Kind, namespace: str, name: str) -> Json:
        return {"metadata": {"namespace": namespace, "name": name, "resourceVersion": "1"}, "spec": {}}

    async def patch(self, kind: Kind, namespace: str, name: str, changes: Json) -> Json:
        return {**changes, "metadata": {**changes["metadata"], "namespace": namespace, "name": name}}

    async def apply(self, body: Json, *, manager: str, subresource: str = "") -> Json:
        raise ClusterUnavailable("no answer")


def queue(version: int, uid: str) -> Json:
    head = {"name": "thumbs", "namespace": "media", "uid": uid, "resourceVersion": str(version)}
    return {"metadata": head, "spec": {}}


def runners() -> list[asyncio.Task[Any]]:
    return [task for task in asyncio.all_tasks() if task.get_name() == "queue media/thumbs"]


class Slow:
    """A cluster whose lists have four pages, each of which takes 50 seconds."""

    def __init__(self) -> None:
        self.now = 0.0
        self.lists = 0
        self.liveness = Liveness(lambda: self.now)
        self.stuck: list[str] = []

    async def list(
        self, kind: Kind, namespace: str | None, selector: str, keep: Callable[[Json], Json]
    ) -> list[Json]:
        del kind, namespace, selector
        self.lists += 1
        for _ in range(4):
            self.now += 50.0
            self.stuck += self.liveness.stuck()
            keep(queue(1, "uid"))
        await asyncio.sleep(0)
        return []


async def test_a_listing_that_takes_minutes_is_not_stuck(settings: OperatorSettings, tmp_path: Path) -> None:
    """With many pods or a slow API server; a restart would begin again with the same listing."""
    slow, controller, stop = Slow(), Controller(), asyncio.Event()
    cluster = cast("Cluster", slow)
    controller.attach(
        Context(
            settings=replace(settings, resync_period=0.01),
            cluster=cluster,
            cache=Cache(controller.changed),
            connections=RedisConnections(cluster, tmp_path),
            ownership=Ownership(cluster, settings),
            namespaces=NamespaceLeases(cluster, settings, lambda: 0.0, controller.namespace_changed),
            budgets=Budgets(cluster),
            recorder=EventRecorder(cluster, lambda: 0.0, "me"),
            metrics=Metrics(),
            liveness=slow.liveness,
            wall_clock=lambda: 0.0,
        )
    )
    listing = asyncio.create_task(controller.resync(stop))
    await eventually(lambda: slow.lists >= 9)
    stop.set()
    await listing
    assert slow.stuck == []


async def test_a_recreated_queue_gets_a_new_reconciler_after_the_first_has_stopped(
    settings: OperatorSettings, tmp_path: Path
) -> None:
    controller, metrics = Controller(), Metrics()
    cluster = cast("Cluster", Silent())
    liveness = Liveness(asyncio.get_running_loop().time)
    cache = Cache(controller.changed)
    controller.attach(
        Context(
            settings=settings,
            cluster=cluster,
            cache=cache,
            connections=RedisConnections(cluster, tmp_path),
            ownership=Ownership(cluster, settings),
            namespaces=NamespaceLeases(cluster, settings, lambda: 0.0, controller.namespace_changed),
            budgets=Budgets(cluster),
            recorder=EventRecorder(cluster, lambda: 0.0, "me"),
            metrics=metrics,
            liveness=liveness,
            wall_clock=lambda: 0.0,
        )
    )
    controller.listed.set()
    working = asyncio.create_task(controller.lead())
    cache.update_queue(queue(1, "old"))
    await eventually(lambda: "queue media/thumbs" in liveness.ages())
    (first,) = runners()
    cache.update_queue(queue(2, "new"))
    await eventually(first.done)
    (second,) = runners()
    assert second is not first
    # The first reconciler removes its heartbeat before the second one starts.
    await eventually(lambda: "queue media/thumbs" in liveness.ages())
    cache.update_queue(queue(2, "new"), is_gone=True)
    await eventually(lambda: runners() == [])
    assert "queue media/thumbs" not in liveness.ages()
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
