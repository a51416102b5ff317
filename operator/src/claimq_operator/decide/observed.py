"""The observation of one pass: a queue in the cluster and on its server. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from claimq.model import ServerReport, Snapshot, WorkerInfo
from claimq_control.workers import WorkerPod
from claimq_kubernetes.port import Json, part, parts
from claimq_kubernetes.queue_resource import QueueResource
from claimq_operator.fault import Fault


@dataclass(frozen=True, slots=True)
class Observed:
    """One observation. ``snapshot`` is None while the queue is unknown; ``redis_fault`` then has the cause."""

    resource: QueueResource
    deployment: Json | None = None
    pods: tuple[WorkerPod, ...] = ()
    snapshot: Snapshot | None = None
    workers: tuple[WorkerInfo, ...] = ()
    report: ServerReport | None = None
    redis_fault: Fault | None = None
    refusal: Fault | None = None
    """Why the API server rejected the children in the previous pass, if it did."""
    standing_by: tuple[str, ...] = ()
    """Other releases of the operator that serve the namespace and stand by."""

    @property
    def full(self) -> str:
        """The warning of a server that has no memory for new items; else empty. Workers go on."""
        warnings = () if self.report is None or self.snapshot is None else self.report.warnings
        return next((one.message for one in warnings if one.code == "Full"), "")

    @property
    def replicas(self) -> int:
        """The Deployment's number of replicas."""
        return 0 if self.deployment is None else int(self.deployment["spec"].get("replicas", 1))

    @property
    def replicas_owners(self) -> set[str]:
        """The field managers that own the Deployment's number of replicas."""
        entries = [] if self.deployment is None else parts(self.deployment["metadata"], "managedFields")
        return {
            str(entry.get("manager"))
            for entry in entries
            if "f:replicas" in part(part(entry, "fieldsV1"), "f:spec")
        }

    @property
    def live_pods(self) -> tuple[WorkerPod, ...]:
        """The pods that are not terminating."""
        return tuple(pod for pod in self.pods if not pod.is_terminating)

    @property
    def ready(self) -> int:
        """Workers that are ready."""
        return sum(pod.is_ready for pod in self.live_pods)

    @property
    def busy_workers(self) -> int:
        """Workers that hold claims and are not terminating."""
        return sum(pod.busy > 0 for pod in self.live_pods)

    @property
    def newest_revision(self) -> str | None:
        """The revision of the newest pods while there are pods of several templates; else None."""
        revisions = {pod.revision for pod in self.live_pods}
        if len(revisions) < 2:
            return None
        return max(self.live_pods, key=lambda pod: pod.created_at).revision

    @property
    def is_paused_rollout(self) -> bool:
        """Whether `kubectl rollout pause` keeps the Deployment from replacing pods."""
        return bool(part(self.deployment, "spec").get("paused"))

    @property
    def has_old_pods(self) -> bool:
        """Whether the Deployment's own status reports pods that do not have the newest template."""
        if self.deployment is None:
            return False
        status = part(self.deployment, "status")
        if status.get("observedGeneration", 0) < self.deployment["metadata"].get("generation", 0):
            return False
        return int(status.get("updatedReplicas", 0)) < int(status.get("replicas", 0))

    @property
    def is_rolling_out(self) -> bool:
        """Whether there are pods of an older template, or the controller has not observed the newest template yet."""
        if self.deployment is None:
            return False
        status, metadata = part(self.deployment, "status"), self.deployment["metadata"]
        if self.is_paused_rollout:
            # It lasts until a user ends it, and the controller never gives it up.
            return len({pod.revision for pod in self.live_pods}) > 1
        if any(one.get("reason") == "ProgressDeadlineExceeded" for one in parts(status, "conditions")):
            # The Deployment controller gave up. A template that never becomes ready must not block scaling.
            return False
        if status.get("observedGeneration", 0) < metadata.get("generation", 0):
            return len({pod.revision for pod in self.live_pods}) > 1
        return int(status.get("updatedReplicas", 0)) < int(status.get("replicas", 0))
