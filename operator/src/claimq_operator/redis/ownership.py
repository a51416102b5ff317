"""Checks that a ReliableQueue may use a queue on its server: by name, and by the owner recorded on the server."""

from __future__ import annotations

from claimq.internals.owner import Owner
from claimq.reliable_queue import ReliableQueue
from claimq_control.fault import OWNED_BY_ANOTHER, Fault
from claimq_control.manifest import QueueSpec
from claimq_control.passes.ownership import foreign_owner
from claimq_control.passes.worker_platform import ServerAccessError
from claimq_kubernetes.labels import TAKE_OVER
from claimq_kubernetes.port import NAMESPACES, Cluster, NotFound, Refused
from claimq_kubernetes.queue_resource import QueueResource
from claimq_operator.settings import OperatorSettings

NAME_FORBIDDEN = "QueueNameForbidden"
_CLUSTER_NAMESPACE = "kube-system"
"""A namespace that every cluster has and that is never deleted. Its uid identifies the cluster."""


class Ownership:
    """Checks names and owners of queues. It reads the id of the cluster once."""

    def __init__(self, cluster: Cluster, settings: OperatorSettings) -> None:
        self._cluster = cluster
        self._settings = settings
        self._id = settings.cluster_id

    def check_name(self, resource: QueueResource, spec: QueueSpec) -> None:
        """Raises ServerAccessError for a name on the server that queues of this namespace may not use."""
        fault = name_fault(resource, spec, self._settings)
        if fault is not None:
            raise ServerAccessError(fault)

    async def owner(self, resource: QueueResource) -> Owner:
        """The owner record of the resource. Raises ServerAccessError, ClusterError."""
        return Owner(await self._cluster_id(), resource.namespace, resource.name, resource.uid)

    async def own(self, resource: QueueResource, queue: ReliableQueue) -> None:
        """Records the resource as the queue's owner, unless the queue has one.

        Raises ServerAccessError if another object owns it, ClaimqError, ClusterError.
        """
        owner = await self.owner(resource)
        take_over = (resource.annotations.get(TAKE_OVER, ""),)
        foreign = await foreign_owner(queue, owner, take_over, records=True)
        if foreign is not None:
            raise ServerAccessError(_owned(resource, queue.name, foreign))

    async def _cluster_id(self) -> str:
        if not self._id:
            try:
                body = await self._cluster.get(NAMESPACES, _CLUSTER_NAMESPACE, _CLUSTER_NAMESPACE)
            except (Refused, NotFound) as error:
                message = (
                    f"the operator cannot read the id of its cluster: {error}; set operator.clusterId in its chart "
                    f"(CLAIMQ_CLUSTER_ID), or allow it to get the namespace {_CLUSTER_NAMESPACE}"
                )
                raise ServerAccessError(Fault("ClusterUnknown", message, needs_action=True)) from error
            self._id = body["metadata"]["uid"]
        return self._id


def name_fault(resource: QueueResource, spec: QueueSpec, settings: OperatorSettings) -> Fault | None:
    """The fault of a name that does not begin with the namespace and a dot, unless a setting allows it. Else None."""
    prefix, name = f"{resource.namespace}.", spec.queue_name
    if settings.grants.allows_name(resource.namespace, name):
        return None
    message = (
        f'spec.queueName: "{name}" does not begin with "{prefix}", so it may belong to another namespace; create the '
        f'ReliableQueue without the field, or add "{resource.namespace}={name}" to operator.queueNames in the '
        "operator's chart"
    )
    return Fault(NAME_FORBIDDEN, message, needs_action=True)


def _owned(resource: QueueResource, name: str, owner: Owner) -> Fault:
    message = (
        f'the queue {name} belongs to the ReliableQueue "{owner.name}" in the namespace {owner.namespace} (cluster '
        f"id {owner.cluster}), so nothing is changed; choose another spec.queueName, or take the queue over with "
        f"`kubectl annotate rq {resource.name} --namespace={resource.namespace} {TAKE_OVER}={owner}`"
    )
    return Fault(OWNED_BY_ANOTHER, message, needs_action=True)
