"""Which queue on a server an object may have: names by the namespace, and the owner that the server has on record."""

from __future__ import annotations

from claimq.owner import Owner, read_owner
from claimq.queue.reliable_queue import ReliableQueue
from claimq_operator.fault import OWNED_BY_ANOTHER, Fault
from claimq_operator.grants import matches
from claimq_operator.kubernetes_api.labels import TAKE_OVER
from claimq_operator.kubernetes_api.port import NAMESPACES, Cluster, NotThere, Refused
from claimq_operator.kubernetes_api.queue_resource import QueueResource
from claimq_operator.redis.connections import NoAccess
from claimq_operator.settings import OperatorSettings
from claimq_spec.manifest import QueueSpec

NAME_FORBIDDEN = "QueueNameForbidden"
_CLUSTERS_OWN = "kube-system"
"""A namespace that every cluster has and that is never deleted: its uid names the cluster."""


class Ownership:
    """Answers whether an object may use the queue that it names; asks for the cluster's id once."""

    def __init__(self, cluster: Cluster, settings: OperatorSettings) -> None:
        self._cluster = cluster
        self._settings = settings
        self._id = settings.cluster_id

    def check_name(self, resource: QueueResource, spec: QueueSpec) -> None:
        """Raises NoAccess for a name on the server that queues of this namespace may not have."""
        fault = name_fault(resource, spec, self._settings)
        if fault is not None:
            raise NoAccess(fault)

    async def owner(self, resource: QueueResource) -> Owner:
        """The object as the owner of a queue. Raises NoAccess, ClusterError."""
        return Owner(await self._cluster_id(), resource.namespace, resource.name, resource.uid)

    async def own(self, resource: QueueResource, queue: ReliableQueue) -> Owner:
        """The object, as the queue's owner. Raises NoAccess if another is, ClaimqError, ClusterError."""
        mine = await self.owner(resource)
        found = await queue.own(mine, take_over_from=read_owner(resource.annotations.get(TAKE_OVER, "")))
        if found.words() != mine.words():
            raise NoAccess(_owned(resource, queue.name, found))
        return mine

    async def _cluster_id(self) -> str:
        if not self._id:
            try:
                body = await self._cluster.get(NAMESPACES, _CLUSTERS_OWN, _CLUSTERS_OWN)
            except (Refused, NotThere) as error:
                said = (
                    f"the operator does not know which cluster this is: {error}; set operator.clusterId of its chart "
                    f"(CLAIMQ_CLUSTER_ID), or let it get the namespace {_CLUSTERS_OWN}"
                )
                raise NoAccess(Fault("ClusterUnknown", said, needs_person=True)) from error
            self._id = body["metadata"]["uid"]
        return self._id


def name_fault(resource: QueueResource, spec: QueueSpec, settings: OperatorSettings) -> Fault | None:
    """Names that begin with the namespace and a dot are the namespace's own; others need a setting."""
    own, name = f"{resource.namespace}.", spec.queue_name
    allowed = settings.queue_names.patterns(resource.namespace)
    if name.startswith(own) or any(matches(name, pattern) for pattern in allowed):
        return None
    said = (
        f'spec.queueName: "{name}" does not begin with "{own}", so it may be another namespace\'s queue; remove the '
        f'field in a new ReliableQueue, or add "{resource.namespace}={name}" to operator.queueNames of the '
        "operator's chart"
    )
    return Fault(NAME_FORBIDDEN, said, needs_person=True)


def _owned(resource: QueueResource, name: str, owner: Owner) -> Fault:
    said = (
        f'the queue {name} belongs to the ReliableQueue "{owner.name}" of the namespace {owner.namespace} (cluster '
        f"id {owner.cluster}), so nothing is changed; choose another spec.queueName, or take the queue over: "
        f"`kubectl annotate rq {resource.name} --namespace={resource.namespace} {TAKE_OVER}={owner}`"
    )
    return Fault(OWNED_BY_ANOTHER, said, needs_person=True)
