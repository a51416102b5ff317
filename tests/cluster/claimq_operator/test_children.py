"""Children on a real API server: created only where none is, owned as applied, and another owner of their number."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from kubernetes.aio import config
from kubernetes.aio.client.configuration import Configuration

from claimq.blocking import BlockingQueue
from claimq_control.decide.plan import Plan
from claimq_kubernetes.budgets import Budgets
from claimq_kubernetes.client import KubernetesClient
from claimq_kubernetes.port import ClusterError, Conflict, Json, Kind, NotFound
from claimq_kubernetes.queue_resource import QueueResource, read_queue
from claimq_operator.children.budget import budget
from claimq_operator.decide.objects import Objects
from claimq_operator.decide.request_failures import NotOurs, Step
from claimq_operator.reconcile.apply import Applier
from claimq_operator.telemetry.metrics import Metrics
from claimq_operator.watch.cache import Cache
from testkit.kubernetes.operator_world import World
from testkit.waiting import eventually_sync

Items = Callable[..., BlockingQueue]


class CreatedInBetween:
    """The API server of a world, where another app creates an object just after the operator saw that there is none."""

    def __init__(self, client: KubernetesClient, create_another: Callable[[], object]) -> None:
        self.client = client
        self.create_another: Callable[[], object] | None = create_another

    async def get(self, kind: Kind, namespace: str, name: str) -> Json:
        try:
            return await self.client.get(kind, namespace, name)
        except NotFound:
            if self.create_another is not None:
                self.create_another()
                self.create_another = None
            raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)


@asynccontextmanager
async def connected(world: World) -> AsyncGenerator[KubernetesClient]:
    """The operator's client, as the API server's administrator."""
    settings: Any = Configuration()
    loading: Any = config
    await loading.load_kube_config(
        str(world.api.kubeconfig()), client_configuration=settings, persist_config=False
    )
    client = KubernetesClient(settings, Metrics().count_request)
    try:
        yield client
    finally:
        await client.close()


def applier(cluster: Any) -> Applier:
    return Applier(cluster, Cache(lambda _: None), Budgets(cluster))


def body_of(world: World, **spec: Any) -> tuple[QueueResource, Json]:
    resource = read_queue(world.queue(**spec))
    return resource, budget(resource)


async def test_an_object_that_another_app_creates_in_between_is_not_taken_over(world: World) -> None:
    resource, body = body_of(world)
    metadata = {"name": body["metadata"]["name"], "namespace": world.namespace}
    # Its fields have the same values: a server-side apply would not conflict with it.
    another = {**body, "metadata": metadata}
    async with connected(world) as client:
        cluster = CreatedInBetween(client, lambda: world.api.create(another))
        failures = await applier(cluster).children(
            Plan(applies=True), Objects(resource, children=(body,)), 0.0
        )
        assert isinstance(failures[Step.BUDGET], Conflict)
        theirs = world.get("poddisruptionbudget", metadata["name"])
        failures = await applier(cluster).children(
            Plan(applies=True), Objects(resource, children=(body,)), 0.0
        )
        assert isinstance(failures[Step.BUDGET], NotOurs)
    assert "labels" not in theirs["metadata"]
    assert "ownerReferences" not in theirs["metadata"], "it is not the operator's"
    assert world.get("poddisruptionbudget", metadata["name"]) == theirs


async def test_a_child_is_owned_as_applied_so_that_a_later_apply_removes_fields(world: World) -> None:
    resource, body = body_of(world)
    noted = {**body, "metadata": {**body["metadata"], "annotations": {"note": "1"}}}
    async with connected(world) as client:
        made = applier(client)
        await made.children(Plan(applies=True), Objects(resource, children=(noted,)), 0.0)
        first = world.get("poddisruptionbudget", body["metadata"]["name"])
        await made.children(Plan(applies=True), Objects(resource, children=(body,)), 0.0)
    owners = [(one["manager"], one["operation"]) for one in first["metadata"]["managedFields"]]
    assert owners == [("claimq-operator", "Apply")]
    assert first["metadata"]["annotations"] == {"note": "1"}
    later = world.get("poddisruptionbudget", body["metadata"]["name"])
    assert "annotations" not in later["metadata"]
    assert later["metadata"]["uid"] == first["metadata"]["uid"]


async def test_an_operator_that_dies_after_the_creation_leaves_nothing_that_stays(world: World) -> None:
    resource, body = body_of(world)
    noted = {**body, "metadata": {**body["metadata"], "annotations": {"note": "1"}}}

    class DiesAfterCreation:
        def __init__(self, client: KubernetesClient) -> None:
            self.client = client

        async def patch(self, kind: Kind, namespace: str, name: str, changes: Json) -> Json:
            raise ClusterError("the operator is gone")

        def __getattr__(self, name: str) -> Any:
            return getattr(self.client, name)

    async with connected(world) as client:
        died = applier(DiesAfterCreation(client))
        assert Step.BUDGET in await died.children(
            Plan(applies=True), Objects(resource, children=(noted,)), 0.0
        )
        await applier(client).children(Plan(applies=True), Objects(resource, children=(body,)), 0.0)
    later = world.get("poddisruptionbudget", body["metadata"]["name"])
    assert "annotations" not in later["metadata"]


def test_a_number_that_others_set_is_set_back_and_reported_once(world: World, items: Items) -> None:
    world.operator()
    world.queue(scaling={"minReplicas": 1, "maxReplicas": 1})
    world.wait_for_replicas(1)
    eventually_sync(lambda: world.condition("ScalingActive") == "True Auto")
    world.api.kubectl("scale", "deployment", "thumbs-worker", "-n", world.namespace, "--replicas=4")
    eventually_sync(lambda: world.condition("ScalingActive") == "True Contested")
    world.wait_for_replicas(1)
    eventually_sync(lambda: '"kubectl" also sets' in world.events().get("ReplicasContested", ""))
    assert world.condition("ScalingActive") == "True Contested"
