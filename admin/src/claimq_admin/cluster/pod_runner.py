"""Suspends a ReliableQueue and drains its pods."""

from __future__ import annotations

from dataclasses import dataclass

from claimq_admin.errors import CommandError
from claimq_kubernetes.labels import is_worker_of
from claimq_kubernetes.port import PODS, QUEUES, ClusterError, Conflict, EvictingCluster, NotFound
from claimq_process.names import pod_of_worker


@dataclass(frozen=True, slots=True)
class PodRunner:
    """The operator, by the object of a queue; see :class:`claimq_admin.changes.queue_admin.Runner`."""

    cluster: EvictingCluster
    namespace: str
    name: str

    async def suspend(self, suspended: bool) -> None:
        """Sets ``spec.suspend`` of the ReliableQueue. ClusterError."""
        await self.cluster.patch(QUEUES, self.namespace, self.name, {"spec": {"suspend": suspended}})

    async def drain(self, worker: str) -> None:
        """Evicts the pod of a worker. CommandError if it is no pod of this queue, or is not evicted.

        Workers choose their own names, so the pod has to be one of this queue by its labels as well.
        """
        pod_and_uid = pod_of_worker(worker)
        if pod_and_uid is None:
            raise CommandError(f"{worker} does not run in a pod of Kubernetes; stop it where it runs")
        pod, uid = pod_and_uid
        try:
            if not is_worker_of(await self.cluster.get(PODS, self.namespace, pod), self.name):
                raise CommandError(f"the pod {pod} is not a worker of {self.namespace}.{self.name}")
            await self.cluster.evict(self.namespace, pod, uid)
        except (NotFound, Conflict) as error:
            raise CommandError(f"the pod {pod} of this worker has ended") from error
        except ClusterError as error:
            raise CommandError(str(error)) from error
