"""Applies a plan to the cluster, in the order of its fields, and skips requests that would change nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from claimq_control.decide.plan import Plan
from claimq_kubernetes.budgets import Budgets
from claimq_kubernetes.labels import DELETION_COST, FIELD_MANAGER, FINALIZER, SCALE_MANAGER, STATUS_MANAGER
from claimq_kubernetes.port import (
    BUDGETS,
    BY_KIND,
    DEPLOYMENTS,
    PODS,
    QUEUES,
    Cluster,
    ClusterError,
    Conflict,
    Json,
    NotFound,
    part,
    parts,
)
from claimq_kubernetes.queue_resource import QueueResource
from claimq_operator.children.budget import budget, is_off
from claimq_operator.decide.objects import Objects
from claimq_operator.decide.request_failures import NotOurs, Step
from claimq_operator.decide.workers_state import replicas_to_hold
from claimq_operator.watch.cache import Cache

REAPPLY_SECONDS = 600.0
"""How often children are applied without a known change, which repairs drift that no watch event reported."""

_STEPS = {DEPLOYMENTS.kind: Step.DEPLOYMENT, BUDGETS.kind: Step.BUDGET}


class Applier:
    """Applies the plans of one queue; remembers what it applied last."""

    def __init__(self, cluster: Cluster, cache: Cache, budgets: Budgets) -> None:
        """The cache gets the objects that the API server returns; the next pass need not wait for the watch."""
        self._cluster = cluster
        self._cache = cache
        self._budgets = budgets
        self._applied: dict[str, tuple[str, float]] = {}
        self._generation: tuple[str, int] | None = None
        self._compared: tuple[float, str] | None = None

    async def children(self, plan: Plan, objects: Objects, now: float) -> dict[Step, ClusterError]:
        """Applies children, deletion costs and the number of workers; returns the errors of the steps that failed.

        A step that fails does not end the others: the number of workers is applied although a child is not accepted.
        """
        deployment, children = objects.deployment, objects.to_apply(plan)
        held_replicas = replicas_to_hold(deployment) if plan.applies else None
        if held_replicas is not None and deployment is not None:
            try:
                await self._scale(deployment, held_replicas, if_unchanged=True)
            except Conflict:
                return {}  # another client has changed the Deployment, perhaps this number: the next pass sees it
            except ClusterError as error:
                return {
                    Step.REPLICAS: error
                }  # without its own manager, the next apply would reset the number
        failures: dict[Step, ClusterError] = {}
        for body in children:
            try:
                await self._apply(body, children, objects, now)
            except ClusterError as error:
                failures[_STEPS[body["kind"]]] = error
        try:
            for pod, cost in plan.costs.items():
                await self._cost(objects.resource.namespace, pod, cost)
        except ClusterError as error:
            failures[Step.COSTS] = error
        if plan.replicas is not None and deployment is not None:
            try:
                await self._scale(deployment, plan.replicas)
            except ClusterError as error:
                failures[Step.REPLICAS] = error
        return failures

    async def _apply(self, body: Json, children: tuple[Json, ...], objects: Objects, now: float) -> None:
        """Applies a child. The budget selects no pods while another budget does: no pod of two budgets is evicted."""
        if body["kind"] != BUDGETS.kind:
            await self._child(body, objects, now)
            return
        resource, labels = objects.resource, _pod_labels(children, body)
        budgets = await self._budgets.of(resource.namespace, now)
        compared = budgets.at, json.dumps([body, labels], sort_keys=True)
        if compared == self._compared:
            return
        name = body["metadata"]["name"]
        if budgets.others_select(name, labels):
            body = budget(resource, is_on=False)
        if name not in budgets.selectors and budgets.at > self._applied.get(BUDGETS.kind, ("", 0.0))[1]:
            self._applied.pop(BUDGETS.kind, None)  # it was deleted, or there never was one
        exists = name in budgets.selectors or BUDGETS.kind in self._applied
        if exists or not is_off(body):
            await self._child(body, objects, now)
        self._compared = compared

    async def _child(self, body: Json, objects: Objects, now: float) -> None:
        kind = body["kind"]
        text = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        was, at = self._applied.get(kind, ("", float("-inf")))
        has_drifted = kind == DEPLOYMENTS.kind and _generation(objects.deployment) != self._generation
        if text == was and not has_drifted and now - at < REAPPLY_SECONDS:
            return
        uid = (await self._owned(body, objects.resource))["metadata"]["uid"]
        # The uid keeps this from changing another object of the name, if this one was just deleted.
        same = {**body, "metadata": {**body["metadata"], "uid": uid}}
        applied = await self._cluster.apply(same, manager=FIELD_MANAGER)
        if kind == DEPLOYMENTS.kind:
            self._remember(applied)
        self._applied[kind] = (text, now)

    async def _owned(self, body: Json, resource: QueueResource) -> Json:
        """The child as it is on the API server, created if it is absent. Raises NotOurs, Conflict, ClusterError.

        The creation fails if another client has created an object of the name in the meantime: server-side apply would
        take that object over.
        """
        kind, metadata = BY_KIND[body["kind"]], body["metadata"]
        current = await self._current(body, resource) or await self._cluster.create(kind, body)
        entries = _as_applied(parts(current["metadata"], "managedFields"))
        if entries is None:
            return current
        version = current["metadata"]["resourceVersion"]
        changes = {"metadata": {"managedFields": entries, "resourceVersion": version}}
        return await self._cluster.patch(kind, metadata["namespace"], metadata["name"], changes)

    async def _current(self, body: Json, resource: QueueResource) -> Json | None:
        """The object with the child's name; None if there is none. Raises NotOurs, ClusterError."""
        kind, metadata = BY_KIND[body["kind"]], body["metadata"]
        try:
            current = await self._cluster.get(kind, metadata["namespace"], metadata["name"])
        except NotFound:
            return None
        if resource.controls(current) or resource.is_left_over(current):
            return current
        raise NotOurs(
            f'the {kind.kind} "{metadata["name"]}" exists and does not belong to this queue ({_owner(current)}), so it '
            "is not changed; delete or rename it, or give this queue another name"
        )

    async def _scale(self, deployment: Json, replicas: int, *, if_unchanged: bool = False) -> None:
        """Sets the number of workers with its own field manager, so that another client can take over only this field.

        ``if_unchanged``: raises Conflict if the Deployment has changed since it was observed.
        """
        metadata = deployment["metadata"]
        version = {"resourceVersion": metadata["resourceVersion"]} if if_unchanged else {}
        body: Json = {
            "apiVersion": DEPLOYMENTS.api_version,
            "kind": DEPLOYMENTS.kind,
            # The uid keeps this from creating a new object if the Deployment was just deleted.
            "metadata": {
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "uid": metadata["uid"],
                **version,
            },
            "spec": {"replicas": replicas},
        }
        self._remember(await self._cluster.apply(body, manager=SCALE_MANAGER))

    async def scale_to_zero(self, deployment: Json) -> None:
        """Removes all workers of a queue that is being deleted."""
        await self._scale(deployment, 0)

    def _remember(self, deployment: Json) -> None:
        self._generation = _generation(deployment)
        self._cache.update_deployment(deployment)

    async def _cost(self, namespace: str, pod: str, cost: int) -> None:
        changes = {"metadata": {"annotations": {DELETION_COST: str(cost)}}}
        try:
            await self._cluster.patch(PODS, namespace, pod, changes)
        except NotFound:
            return  # the pod was deleted

    async def status(self, resource: QueueResource, status: Json) -> None:
        """Writes the whole status; fields that are not in it any more are removed."""
        body: Json = {
            "apiVersion": QUEUES.api_version,
            "kind": QUEUES.kind,
            "metadata": {"name": resource.name, "namespace": resource.namespace},
            "status": status,
        }
        try:
            self._cache.update_queue(
                await self._cluster.apply(body, manager=STATUS_MANAGER, subresource="status")
            )
        except (NotFound, Conflict):
            return  # the queue is gone

    async def finalizer(self, resource: QueueResource, *, is_present: bool) -> None:
        """Adds or removes the operator's finalizer. Raises Conflict if the object has changed since it was observed.

        An object that is being deleted is gone without its last finalizer. The reply then has the resource version from
        before, so the cache would not see from it that anything has changed.
        """
        try:
            # Those of others are not in the cache. If they change now, the version does too.
            other_finalizers = await self._finalizers_of_others(resource)
            changes = {
                "metadata": {
                    "finalizers": [*other_finalizers, FINALIZER] if is_present else other_finalizers,
                    "resourceVersion": resource.resource_version,
                }
            }
            body = await self._cluster.patch(QUEUES, resource.namespace, resource.name, changes)
        except NotFound:
            return
        finalizers = body["metadata"].get("finalizers")
        self._cache.update_queue(body, is_gone=resource.deleted_at is not None and not finalizers)

    async def _finalizers_of_others(self, resource: QueueResource) -> list[str]:
        """Read by a list, for which the operator has the right."""
        name = f"metadata.name={resource.name}"
        queues = await self._cluster.list(QUEUES, resource.namespace, fields=name)
        return [
            finalizer
            for body in queues
            for finalizer in body["metadata"].get("finalizers") or ()
            if finalizer != FINALIZER
        ]


def _as_applied(entries: list[Json]) -> list[Json] | None:
    """The managedFields with the fields of the creation as applied ones; None: they are.

    Otherwise the creation would own these fields as well, and a later apply could not remove them.
    """
    ours = [
        entry for entry in entries if entry.get("manager") == FIELD_MANAGER and not entry.get("subresource")
    ]
    created = [entry for entry in ours if entry.get("operation") == "Update"]
    if not created:
        return None
    if len(created) < len(ours):
        return [entry for entry in entries if entry not in created]
    return [{**entry, "operation": "Apply"} if entry in created else entry for entry in entries]


def _pod_labels(children: tuple[Json, ...], body: Json) -> Mapping[str, str]:
    """The labels of the worker pods: those of the Deployment's template, or else those of every child."""
    deployment = next((child for child in children if child["kind"] == DEPLOYMENTS.kind), None)
    template = part(part(part(deployment, "spec"), "template"), "metadata")
    return {**body["metadata"]["labels"], **part(template, "labels")}


def _owner(body: Json) -> str:
    owners = [owner for owner in parts(body["metadata"], "ownerReferences") if owner.get("controller")]
    if not owners:
        return "it has no controller"
    return f'it belongs to the {owners[0].get("kind")} "{owners[0].get("name")}" with the uid {owners[0].get("uid")}'


def _generation(deployment: Json | None) -> tuple[str, int] | None:
    if deployment is None:
        return None
    return deployment["metadata"]["uid"], deployment["metadata"].get("generation", 0)
