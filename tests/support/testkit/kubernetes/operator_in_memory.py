"""An operator without watches over a Kubernetes API in memory."""

import asyncio
import copy
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from claimq_control.grants import NO_GRANTS, Grants
from claimq_kubernetes.budgets import Budgets
from claimq_kubernetes.port import QUEUES, ClusterUnavailable, Json, Kind, NotFound
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
from testkit.servers.server import Server
from testkit.waiting import eventually

SETTINGS = OperatorSettings(
    sidecar_image="sidecar:1", elects_leader=False, cluster_id="test", busy_period=0.1, idle_period=0.1
)


class MemoryApi:
    """The objects of a cluster. Each write merges metadata and spec, and replaces other fields."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Json] = {}

    async def has_kind(self, kind: Kind) -> bool:
        del kind
        return True

    async def get(self, kind: Kind, namespace: str, name: str) -> Json:
        del namespace
        with suppress(KeyError):
            return copy.deepcopy(self.objects[kind.kind, name])
        raise NotFound(f"no {kind.kind} {name}")

    async def list(
        self, kind: Kind, namespace: str | None, selector: str = "", keep: Any = None, *, fields: str = ""
    ) -> list[Json]:
        del namespace, selector, fields
        found = [copy.deepcopy(body) for (name, _), body in self.objects.items() if name == kind.kind]
        return found if keep is None else [keep(body) for body in found]

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
            new["metadata"]["resourceVersion"] = old["metadata"][
                "resourceVersion"
            ]  # as the API server replies
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


async def add_queue(context: Context, api: MemoryApi, body: Json) -> None:
    """Makes an object of a queue, which the operator then sees."""
    context.cache.update_queue(await api.create(QUEUES, body))


@asynccontextmanager
async def operator(
    api: MemoryApi, directory: Path, hosts: Grants = NO_GRANTS, settings: OperatorSettings = SETTINGS
) -> AsyncGenerator[Context]:
    """An operator without watches: a resync once a test has changed objects. `hosts`: as CLAIMQ_PASSWORD_HOSTS."""
    controller, metrics = Controller(), Metrics()
    context = Context(
        settings=settings,
        cluster=api,
        cache=Cache(controller.changed),
        connections=RedisConnections(api, directory, hosts, settings.idle_period),
        ownership=Ownership(api, settings),
        namespaces=NamespaceLeases(api, settings, lambda: 1_767_225_600.0, controller.namespace_changed),
        budgets=Budgets(api),
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


class DownApi(MemoryApi):
    """The same, and while it is down every request fails."""

    is_down = False

    def _check(self) -> None:
        if self.is_down:
            raise ClusterUnavailable("the API server does not respond")

    async def get(self, kind: Kind, namespace: str, name: str) -> Json:
        self._check()
        return await super().get(kind, namespace, name)

    def _write(self, kind: str, name: str, body: Json) -> Json:
        self._check()
        return super()._write(kind, name, body)


def replicas(api: MemoryApi) -> int:
    """The number of replicas of the Deployment; -1: there is none."""
    found: int = api.objects.get(("Deployment", "thumbs-worker"), {}).get("spec", {}).get("replicas", -1)
    return found


def passes(context: Context, outcome: str = "") -> float:
    """The number of passes, of all outcomes or of one."""
    return sum(
        one.value
        for metric in context.metrics.passes.collect()
        for one in metric.samples
        if one.name == "claimq_passes_total" and outcome in ("", one.labels["outcome"])
    )


async def more_passes(context: Context, number: int = 5) -> None:
    before = passes(context)
    await eventually(lambda: passes(context) >= before + number)
