"""Applying a plan, also when the API server rejects a request."""

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import cast

import pytest

from claimq_control.decide.observed import Observed
from claimq_control.decide.plan import Memory, Plan, plan
from claimq_kubernetes.budgets import Budgets
from claimq_kubernetes.port import (
    Cluster,
    ClusterError,
    ClusterUnavailable,
    Conflict,
    Json,
    Kind,
    NotFound,
    Refused,
)
from claimq_kubernetes.queue_resource import QueueResource
from claimq_operator.children.budget import budget
from claimq_operator.decide.objects import Objects
from claimq_operator.decide.request_failures import NotOurs, Step
from claimq_operator.reconcile.apply import Applier
from claimq_operator.settings import OperatorSettings
from claimq_operator.watch.cache import Cache
from testkit.kubernetes.kubernetes_objects import deployment_body
from testkit.kubernetes.observations import objects_seen

Look = Callable[..., Observed]
AQueue = Callable[..., QueueResource]


class EmptyCluster(ABC):
    """A cluster without objects; those that are created get a uid."""

    async def get(self, kind: Kind, namespace: str, name: str) -> Json:
        del kind, namespace, name
        raise NotFound("no such object")

    async def list(self, kind: Kind, namespace: str, *, keep: Callable[[Json], Json]) -> list[Json]:
        del kind, namespace, keep
        return []

    async def create(self, kind: Kind, body: Json) -> Json:
        del kind
        created = await self.apply(body, manager="")
        return {**created, "metadata": {**created["metadata"], "uid": "u-1"}}

    @abstractmethod
    async def apply(self, body: Json, *, manager: str, subresource: str = "", force: bool = True) -> Json:
        """Applies an object."""


class RefusingCluster(EmptyCluster):
    """Rejects objects of one kind, except requests that only set replicas; records the numbers that were set."""

    def __init__(self, refused: str, error: type[ClusterError] = Refused) -> None:
        self.refused = refused
        self.error = error
        self.ordered: list[int] = []

    async def apply(self, body: Json, *, manager: str, subresource: str = "", force: bool = True) -> Json:
        del manager, subresource, force
        if body["kind"] == self.refused and set(body["spec"]) != {"replicas"}:
            raise self.error(f"{self.refused} is not valid: spec.worker.template says so")
        if body["kind"] != "Deployment":
            return body
        if "replicas" in body["spec"]:
            self.ordered.append(body["spec"]["replicas"])
        return deployment_body(2)

    async def patch(self, kind: Kind, namespace: str, name: str, changes: Json) -> Json:
        del namespace, name
        if kind.kind == self.refused:
            raise self.error(f"{self.refused} is not valid")
        return changes


class ConflictingCluster(EmptyCluster):
    """A cluster in which another client has changed the Deployment after it was observed."""

    def __init__(self) -> None:
        self.applied: list[Json] = []

    async def apply(self, body: Json, *, manager: str, subresource: str = "", force: bool = True) -> Json:
        del manager, subresource, force
        if body["metadata"].get("resourceVersion") == "9":
            raise Conflict("the object has been modified")
        self.applied.append(body)
        return body


class HasAnother:
    """A cluster in which objects with these owners have the children's names."""

    def __init__(self, *owners: Json) -> None:
        self.owners = list(owners)
        self.applied: list[tuple[str, bool]] = []

    async def list(self, kind: Kind, namespace: str, *, keep: Callable[[Json], Json]) -> list[Json]:
        del kind, namespace, keep
        return []

    async def get(self, kind: Kind, namespace: str, name: str) -> Json:
        del kind
        return {
            "metadata": {"namespace": namespace, "name": name, "uid": "u-7", "ownerReferences": self.owners}
        }

    async def apply(self, body: Json, *, manager: str, subresource: str = "", force: bool = True) -> Json:
        del manager, subresource
        self.applied.append((body["metadata"]["uid"], force))
        return body


UID = "11111111-2222-3333-4444-555555555555"


def applied(
    cluster: RefusingCluster | ConflictingCluster | HasAnother, decided: Plan, objects: Objects
) -> dict[Step, ClusterError]:
    api = cast("Cluster", cluster)
    applier = Applier(api, Cache(lambda _: None), Budgets(api))
    return asyncio.run(applier.children(decided, objects, 0.0))


@pytest.mark.parametrize("error", [Refused, ClusterUnavailable])
@pytest.mark.parametrize(
    ("kind", "step"), [("Deployment", Step.DEPLOYMENT), ("PodDisruptionBudget", Step.BUDGET)]
)
def test_the_existing_deployment_is_scaled_although_a_child_is_not_accepted(
    observed: Look, settings: OperatorSettings, kind: str, step: Step, error: type[ClusterError]
) -> None:
    look = observed(replicas=0, main=4, scaling={"itemsPerReplica": 2})
    cluster = RefusingCluster(kind, error)
    objects = objects_seen(look, settings)
    failures = applied(cluster, plan(look, Memory(), now=0.0, clock=0.0), objects)
    assert list(failures) == [step]
    assert f"{kind} is not valid" in str(failures[step])
    assert cluster.ordered == [2]


def test_a_deletion_cost_that_is_not_accepted_ends_no_other_step(queue: AQueue) -> None:
    cluster = RefusingCluster("Pod", ClusterUnavailable)
    objects = Objects(queue(), deployment_body(0))
    failures = applied(cluster, Plan(costs={"a": 1, "b": 2}, replicas=3), objects)
    assert list(failures) == [Step.COSTS]
    assert cluster.ordered == [3]


def test_a_rejected_first_deployment_is_not_scaled(observed: Look, settings: OperatorSettings) -> None:
    look = observed(main=4, replicas=None)
    cluster, decided = RefusingCluster("Deployment"), plan(look, Memory(), now=0.0, clock=0.0)
    assert list(applied(cluster, decided, objects_seen(look, settings))) == [Step.DEPLOYMENT]
    assert cluster.ordered == []


def test_a_number_that_was_just_changed_is_not_overwritten_with_the_old_one(queue: AQueue) -> None:
    cluster = ConflictingCluster()
    child = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "thumbs-worker"}}
    current = deployment_body(0, owner="claimq-operator")
    applied(cluster, Plan(applies=True), Objects(queue(), current, (child,)))
    assert cluster.applied == []


STRANGERS: list[list[Json]] = [
    [],
    [{"kind": "ReliableQueue", "name": "thumbs", "uid": "of-a-former-one", "controller": True}],
    [{"kind": "HelmRelease", "name": "app", "uid": "u-1", "controller": True}],
    [{"kind": "ReliableQueue", "name": "thumbs", "uid": UID, "controller": False}],
]


@pytest.mark.parametrize("owners", STRANGERS)
def test_an_object_of_another_owner_is_never_changed(queue: AQueue, owners: list[Json]) -> None:
    cluster = HasAnother(*owners)
    objects = Objects(queue(), deployment_body(0), (budget(queue()),))
    error = applied(cluster, Plan(applies=True), objects)[Step.BUDGET]
    assert isinstance(error, NotOurs)
    assert re.search(r'PodDisruptionBudget "thumbs-worker".*delete or rename it', str(error))
    assert cluster.applied == []


def test_a_child_is_applied_with_the_uid_of_the_existing_object(queue: AQueue) -> None:
    child = budget(queue())
    cluster = HasAnother(*child["metadata"]["ownerReferences"])
    applied(cluster, Plan(applies=True), Objects(queue(), deployment_body(0), (child,)))
    assert cluster.applied == [("u-7", True)]
