"""The operator of the release, looked at from outside: its memory, its processor time, its metrics, its requests."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from claimq_bench.meter import rss_mb
from claimq_bench.on_cluster.containers import pid_of
from clusterkit import Cluster, HarnessError
from clusterkit.commands import eventually
from clusterkit.own_cluster import OwnCluster
from testkit.on_cluster.release import Release
from testkit.programs.metrics_page import MetricsPage

_PORT = 8080
_COMPONENT = "app.kubernetes.io%2Fcomponent%3Doperator"


@dataclass(frozen=True)
class Look:
    """At one instant. ``at`` and ``cpu`` in seconds, ``rss`` in MB (10^6 bytes)."""

    at: float
    wall: float
    rss: float
    cpu: float
    page: MetricsPage


@dataclass(frozen=True)
class OperatorProcess:
    """The one that runs now; after a restart it is another."""

    cluster: Cluster
    namespace: str
    pod: str
    user: str
    pid: int | None

    @classmethod
    def restarted(cls, release: Release) -> "OperatorProcess":
        """A fresh one, that has nothing behind it."""
        where, words = f"--namespace={release.namespace}", f"deployment/{release.operator}"
        release.cluster.kubectl("rollout", "restart", words, where)
        release.cluster.kubectl("rollout", "status", words, where, "--timeout=120s", timeout=130)
        eventually("one operator runs", lambda: len(_pods(release)) == 1, timeout=60, every=0.5)
        return cls.running(release)

    @classmethod
    def running(cls, release: Release) -> "OperatorProcess":
        (pod,) = _pods(release)
        user = f"system:serviceaccount:{release.namespace}:{pod['spec']['serviceAccountName']}"
        pid = pid_of(release.cluster, pod, "operator")
        found = cls(release.cluster, release.namespace, pod["metadata"]["name"], user, pid)
        eventually("the operator leads", lambda: found.look().page.total("claimq_leader") == 1, timeout=60)
        return found

    def look(self) -> Look:
        """Through the API server. On a cluster of our own the memory is what the node's kernel says (VmRSS), else
        what the process says of itself."""
        text = self.cluster.api(
            "GET", f"/api/v1/namespaces/{self.namespace}/pods/{self.pod}:{_PORT}/proxy/metrics"
        )
        page = MetricsPage(str(text))
        said = page.total("process_resident_memory_bytes") / 1e6
        cpu = page.total("process_cpu_seconds_total")
        rss = said if self.pid is None else _rss_mb(self.pid)
        return Look(time.monotonic(), time.time(), rss, cpu, page)  # noqa: TID251 - the audit log's clock

    def audited(self, first: Look, last: Look) -> int | None:
        """How many requests of the operator the API server's own log has for that time; None where it is not ours."""
        if not isinstance(self.cluster, OwnCluster):
            return None
        seen: set[str] = set()
        for line in self.cluster.audit_log().splitlines():
            if self.user in line:
                entry = cast("dict[str, Any]", json.loads(line))
                at = datetime.fromisoformat(entry["requestReceivedTimestamp"]).timestamp()
                if entry["user"]["username"] == self.user and first.wall <= at < last.wall:
                    seen.add(entry["auditID"])
        return len(seen)


def _pods(release: Release) -> Sequence[dict[str, Any]]:
    path = f"/api/v1/namespaces/{release.namespace}/pods?labelSelector={_COMPONENT}"
    found = cast("dict[str, Any]", release.cluster.api("GET", path))["items"]
    return [one for one in found if "deletionTimestamp" not in one["metadata"]]


def _rss_mb(pid: int) -> float:
    try:
        return rss_mb(pid)
    except OSError as error:
        raise HarnessError(
            f"the operator's process {pid} does not exist any more: it has been restarted ({error})"
        ) from error
