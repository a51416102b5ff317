"""What one look at a queue found: in the cluster, and on its server. Values only."""

from __future__ import annotations

from dataclasses import dataclass

from claimq.model import ServerReport, Snapshot, WorkerInfo
from claimq_operator.fault import Fault
from claimq_operator.kubernetes_api.port import Json, part, parts
from claimq_operator.kubernetes_api.queue_resource import QueueResource
from claimq_operator.kubernetes_api.worker_pods import WorkerPod


@dataclass(frozen=True, slots=True)
class Observed:
    """One look. ``snapshot`` is None when the queue is unknown, and ``redis_fault`` then says why."""

    resource: QueueResource
    deployment: Json | None = None
    pods: tuple[WorkerPod, ...] = ()
    snapshot: Snapshot | None = None
    workers: tuple[WorkerInfo, ...] = ()
    report: ServerReport | None = None
    redis_fault: Fault | None = None
    refusal: Fault | None = None
    """What the API server said when the children were written last, if it would not."""

    @property
    def full(self) -> str:
        """What the report says of a server that takes no new items; empty while it does. Its workers go on."""
        warnings = () if self.report is None or self.snapshot is None else self.report.warnings
        return next((one.message for one in warnings if one.code == "Full"), "")

    @property
    def replicas(self) -> int:
        """Workers ordered now."""
        return 0 if self.deployment is None else int(self.deployment["spec"].get("replicas", 1))

    @property
    def live_pods(self) -> tuple[WorkerPod, ...]:
        """The pods that are not on their way out."""
        return tuple(pod for pod in self.pods if not pod.is_ending)

    @property
    def ready(self) -> int:
        """Workers that can claim."""
        return sum(pod.is_ready for pod in self.live_pods)

    @property
    def busy_workers(self) -> int:
        """Workers that hold claims and are not on their way out."""
        return sum(pod.busy > 0 for pod in self.live_pods)

    @property
    def newest_revision(self) -> str | None:
        """The newer template, while pods of more than one are there; None while all are made from the same."""
        revisions = {pod.revision for pod in self.live_pods}
        if len(revisions) < 2:
            return None
        return max(self.live_pods, key=lambda pod: pod.created_at).revision

    @property
    def is_rolling_out(self) -> bool:
        """Whether pods of an older template are still there, or the newest template is not acted on yet."""
        if self.deployment is None:
            return False
        status, metadata = part(self.deployment, "status"), self.deployment["metadata"]
        if any(one.get("reason") == "ProgressDeadlineExceeded" for one in parts(status, "conditions")):
            return (
                False  # it has given up: a template that never gets ready must not hold the workers for ever
            )
        if status.get("observedGeneration", 0) < metadata.get("generation", 0):
            return len({pod.revision for pod in self.live_pods}) > 1
        return int(status.get("updatedReplicas", 0)) < int(status.get("replicas", 0))
