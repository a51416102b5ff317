"""Passes over a queue, with a real server and a Kubernetes API in memory."""

import asyncio
import copy
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import claimq
from claimq.model import State
from claimq_operator.kubernetes_api.port import QUEUES, Json, Kind, NotFound
from claimq_operator.reconcile.context import Context
from claimq_operator.reconcile.controller import Controller
from claimq_operator.redis.connections import RedisConnections
from claimq_operator.redis.ownership import Ownership
from claimq_operator.settings import OperatorSettings
from claimq_operator.telemetry.event_recorder import EventRecorder
from claimq_operator.telemetry.liveness import Liveness
from claimq_operator.telemetry.metrics import Metrics
from claimq_operator.watch.cache import Cache
from testkit.server import Server
from testkit.waiting import eventually

SETTINGS = OperatorSettings(
    sidecar_image="sidecar:1", elects_leader=False, cluster_id="test", busy_period=0.1, idle_period=0.1
)


class MemoryApi:
    """The objects of a cluster. Each write merges metadata and spec, and replaces other fields."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Json] = {}

    async def get(self, kind: Kind, namespace: str, name: str) -> Json:
        del namespace
        with suppress(KeyError):
            return copy.deepcopy(self.objects[kind.kind, name])
        raise NotFound(f"no {kind.kind} {name}")

    async def list(
        self, kind: Kind, namespace: str | None, selector: str = "", keep: Any = None
    ) -> list[Json]:
        del namespace, selector, keep
        return [copy.deepcopy(body) for (name, _), body in self.objects.items() if name == kind.kind]

    async def apply(self, body: Json, *, manager: str, subresource: str = "", force: bool = True) -> Json:
        del manager, subresource, force
        return self._write(body["kind"], body["metadata"]["name"], body)

    async def patch(self, kind: Kind, namespace: str, name: str, changes: Json) -> Json:
        del namespace
        return self._write(kind.kind, name, changes)

    async def create(self, kind: Kind, body: Json) -> Json:
        return self._write(kind.kind, body["metadata"]["name"], body)

    def _write(self, kind: str, name: str, body: Json) -> Json:
        old = self.objects.get((kind, name), {"metadata": {"uid": f"uid-{kind}-{name}"}})
        metadata = {**old["metadata"], **body.get("metadata", {})}
        metadata["resourceVersion"] = str(int(old["metadata"].get("resourceVersion", "0")) + 1)
        spec = {**old.get("spec", {}), **body.get("spec", {})}
        new = copy.deepcopy({**old, **body, "metadata": metadata, "spec": spec})
        if "deletionTimestamp" in metadata and not metadata.get("finalizers"):
            self.objects.pop((kind, name), None)
        else:
            self.objects[kind, name] = new
        return copy.deepcopy(new)


def queue_body(server: Server, **spec: Any) -> Json:
    return {
        "apiVersion": "claimq.dev/v1alpha1",
        "kind": "ReliableQueue",
        "metadata": {"name": "thumbs", "namespace": "media", "generation": 1},
        "spec": {"redis": {"url": server.url}, "worker": {"image": "app:1"}, **spec},
    }


@asynccontextmanager
async def operator(api: MemoryApi, directory: Path) -> AsyncGenerator[Context]:
    """An operator without watches: a resync once a test has changed objects."""
    controller, metrics = Controller(), Metrics()
    context = Context(
        settings=SETTINGS,
        cluster=api,
        cache=Cache(controller.changed),
        connections=RedisConnections(api, directory),
        ownership=Ownership(api, SETTINGS),
        recorder=EventRecorder(api, lambda: 1_767_225_600.0, "me"),
        metrics=metrics,
        liveness=Liveness(lambda: 0.0),
        wall_clock=lambda: 1_767_225_600.0,
    )
    controller.attach(context)
    controller.listed.set()
    leading = asyncio.create_task(controller.lead())
    try:
        yield context
    finally:
        leading.cancel()
        await asyncio.gather(leading, return_exceptions=True)
        await context.connections.close()


def conditions(api: MemoryApi) -> dict[str, str]:
    listed = api.objects["ReliableQueue", "thumbs"].get("status", {}).get("conditions", [])
    return {one["type"]: f"{one['status']} {one['reason']}" for one in listed}


async def test_a_queue_with_items_gets_children_a_worker_and_a_status(valkey: Server, tmp_path: Path) -> None:
    api = MemoryApi()
    async with claimq.connect(valkey.url) as store, operator(api, tmp_path) as context:
        await store.queue("media.thumbs", worker="producer").enqueue_many(["a", "b", "c"])
        context.cache.update_queue(await api.create(QUEUES, queue_body(valkey)))
        await eventually(lambda: conditions(api).get("Ready") == "True WorkersStarting")
    assert api.objects["Deployment", "thumbs-worker"]["spec"]["replicas"] >= 1
    assert ("PodDisruptionBudget", "thumbs-worker") in api.objects
    assert api.objects["ReliableQueue", "thumbs"]["status"]["items"]["main"] == 3


async def test_an_unreachable_server_is_reported_and_found_again(
    start_server: Callable[..., Server], tmp_path: Path
) -> None:
    api, server = MemoryApi(), start_server("valkey")
    async with operator(api, tmp_path) as context:
        context.cache.update_queue(await api.create(QUEUES, queue_body(server)))
        await eventually(lambda: conditions(api).get("RedisReachable", "").startswith("True"))
        server.kill9()
        await eventually(lambda: conditions(api).get("RedisReachable") == "False Unreachable")
        message = api.objects["ReliableQueue", "thumbs"]["status"]["conditions"][1]["message"]
        assert "the address comes from spec.redis.url and was used without TLS; correct it" in message
        server.start()
        await eventually(lambda: conditions(api).get("RedisReachable", "").startswith("True"))
    reasons = {body["reason"] for (kind, _), body in api.objects.items() if kind == "Event"}
    assert {"RedisUnreachable", "RedisReachable"} <= reasons


async def test_a_deleted_queue_is_removed_from_the_server(valkey: Server, tmp_path: Path) -> None:
    api = MemoryApi()
    async with claimq.connect(valkey.url) as store, operator(api, tmp_path) as context:
        queue = store.queue("media.thumbs", worker="producer")
        await queue.enqueue("a")
        body = queue_body(valkey, deletionPolicy="Delete")
        context.cache.update_queue(await api.create(QUEUES, body))
        await eventually(lambda: ("Deployment", "thumbs-worker") in api.objects)
        deleted = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
        context.cache.update_queue(await api.patch(QUEUES, "media", "thumbs", deleted))
        await eventually(lambda: ("ReliableQueue", "thumbs") not in api.objects)
        assert (await queue.snapshot()).lengths[State.MAIN] == 0
    assert api.objects["Deployment", "thumbs-worker"]["spec"]["replicas"] == 0
    messages = {body["reason"]: body["message"] for (kind, _), body in api.objects.items() if kind == "Event"}
    assert messages["ItemsRemoved"] == "the queue media.thumbs was deleted from the server with 1 item"
