"""A plan into requests to the cluster, in the order of its fields, and only those that change something."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable

from claimq_operator.decide.observed import Observed
from claimq_operator.decide.plan import Plan
from claimq_operator.kubernetes_api.labels import (
    DELETION_COST,
    FIELD_MANAGER,
    FINALIZER,
    SCALE_MANAGER,
    STATUS_MANAGER,
)
from claimq_operator.kubernetes_api.port import (
    BY_KIND,
    DEPLOYMENTS,
    PODS,
    QUEUES,
    Cluster,
    Conflicting,
    Json,
    NotThere,
    Refused,
    parts,
)
from claimq_operator.kubernetes_api.queue_resource import QueueResource

REAPPLY_SECONDS = 600.0
"""How often children are applied though nothing seems to have changed: what no event told of is repaired then."""


class NotOurs(Refused):
    """There is an object of a child's name that is not the queue's. It is never changed."""


Seen = Callable[[Json], None]


class Applier:
    """Applies the plans of one queue; remembers what it applied last."""

    def __init__(self, cluster: Cluster, see_deployment: Seen, see_queue: Seen) -> None:
        """Both are given what the API server answers, so that the next pass need not wait for the event."""
        self._cluster = cluster
        self._see_deployment = see_deployment
        self._see_queue = see_queue
        self._applied: dict[str, tuple[str, float]] = {}
        self._generation: tuple[str, int] | None = None

    def forget(self) -> None:
        """Nothing is taken for applied any more."""
        self._applied.clear()

    async def children(self, plan: Plan, observed: Observed, now: float) -> None:
        """Children, deletion costs, number of workers. Raises ClusterError; the next pass goes on from there.

        A child that is Refused is told at the end: what is there already is scaled all the same.
        """
        refused: Refused | None = None
        if plan.hold_replicas is not None and observed.deployment is not None:
            try:
                await self._order(observed.deployment, plan.hold_replicas, if_unchanged=True)
            except Conflicting:
                return  # somebody changed the Deployment meanwhile, perhaps just that number: the next pass sees it
        for body in plan.children:
            try:
                await self._child(body, observed, now)
            except Refused as error:
                refused = refused or error
        for pod, cost in plan.costs.items():
            await self._cost(observed.resource.namespace, pod, cost)
        if plan.replicas is not None and observed.deployment is not None:
            await self._order(observed.deployment, plan.replicas)
        if refused is not None:
            raise refused

    async def _child(self, body: Json, observed: Observed, now: float) -> None:
        kind = body["kind"]
        text = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        was, at = self._applied.get(kind, ("", float("-inf")))
        has_drifted = kind == DEPLOYMENTS.kind and _generation(observed.deployment) != self._generation
        if text == was and not has_drifted and now - at < REAPPLY_SECONDS:
            return
        there = await self._there(body, observed.resource)
        applied = await self._cluster.apply(
            _onto(body, there), manager=FIELD_MANAGER, force=there is not None
        )
        if kind == DEPLOYMENTS.kind:
            self._note(applied)
        self._applied[kind] = (text, now)

    async def _there(self, body: Json, resource: QueueResource) -> Json | None:
        """The object that has the child's name now; None if there is none. Raises NotOurs, ClusterError."""
        kind, metadata = BY_KIND[body["kind"]], body["metadata"]
        try:
            found = await self._cluster.get(kind, metadata["namespace"], metadata["name"])
        except NotThere:
            return None
        if resource.controls(found):
            return found
        raise NotOurs(
            f'the {kind.kind} "{metadata["name"]}" is there and is not this queue\'s ({_owner(found)}), so it is left '
            "as it is; delete or rename it, or give this queue another name"
        )

    async def _order(self, deployment: Json, replicas: int, *, if_unchanged: bool = False) -> None:
        """The number of workers, as its own field manager: whoever changes it later takes over just that.

        ``if_unchanged``: raises Conflicting if anybody has changed the Deployment since it was seen.
        """
        metadata = deployment["metadata"]
        version = {"resourceVersion": metadata["resourceVersion"]} if if_unchanged else {}
        body: Json = {
            "apiVersion": DEPLOYMENTS.api_version,
            "kind": DEPLOYMENTS.kind,
            # With the uid this makes no new object when the Deployment has just been deleted.
            "metadata": {
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "uid": metadata["uid"],
                **version,
            },
            "spec": {"replicas": replicas},
        }
        self._note(await self._cluster.apply(body, manager=SCALE_MANAGER))

    async def order_none(self, deployment: Json) -> None:
        """No workers any more, for a queue that is being deleted."""
        await self._order(deployment, 0)

    def _note(self, deployment: Json) -> None:
        self._generation = _generation(deployment)
        self._see_deployment(deployment)

    async def _cost(self, namespace: str, pod: str, cost: int) -> None:
        changes = {"metadata": {"annotations": {DELETION_COST: str(cost)}}}
        try:
            await self._cluster.patch(PODS, namespace, pod, changes)
        except NotThere:
            return  # gone already: it needs no cost

    async def status(self, resource: QueueResource, status: Json) -> None:
        """The whole status; fields that it has no more are removed."""
        body: Json = {
            "apiVersion": QUEUES.api_version,
            "kind": QUEUES.kind,
            "metadata": {"name": resource.name, "namespace": resource.namespace},
            "status": status,
        }
        try:
            self._see_queue(await self._cluster.apply(body, manager=STATUS_MANAGER, subresource="status"))
        except (NotThere, Conflicting):
            return  # the queue is gone

    async def finalizer(self, resource: QueueResource, *, wanted: bool) -> None:
        """Adds or removes the operator's finalizer, if nobody changed the object meanwhile; else the next pass does."""
        others = [one for one in resource.finalizers if one != FINALIZER]
        changes = {
            "metadata": {
                "finalizers": [*others, FINALIZER] if wanted else others,
                "resourceVersion": resource.resource_version,
            }
        }
        try:
            self._see_queue(await self._cluster.patch(QUEUES, resource.namespace, resource.name, changes))
        except NotThere:
            return


def _onto(body: Json, there: Json | None) -> Json:
    """The child, for this very object: another that has taken the name since is not meant."""
    if there is None:
        return body
    return {**body, "metadata": {**body["metadata"], "uid": there["metadata"]["uid"]}}


def _owner(body: Json) -> str:
    owners = [one for one in parts(body["metadata"], "ownerReferences") if one.get("controller")]
    if not owners:
        return "it has no controller"
    return f'it belongs to the {owners[0].get("kind")} "{owners[0].get("name")}" with the uid {owners[0].get("uid")}'


def _generation(deployment: Json | None) -> tuple[str, int] | None:
    if deployment is None:
        return None
    return deployment["metadata"]["uid"], deployment["metadata"].get("generation", 0)
