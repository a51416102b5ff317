"""The checksum example on a real Kubernetes: its objects, its results, and the checksums to compare them with.

Results are on a volume that outlives the pods. An idle pod of the workers' image sees the same files as they do and
mounts the volume; `sha256sum` runs there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import yaml

from claimq.blocking import BlockingQueue
from claimq.model import State
from clusterkit.commands import WAIT
from testkit.on_cluster.release import Release, provide_volume

MANIFEST = Path(__file__).resolve().with_name("queue.yaml")
NAME = "checksums"
UNREADABLE = ("/etc/shadow", "/etc", "/nowhere/at/all", "/proc/1/mem", "/dev/null")
"""Paths that cannot be read in the worker's image, for five different reasons."""

_SHARED_GROUP = 64646
_RESULTS = "/results/results.txt"


@dataclass(frozen=True)
class ChecksumsOnCluster:
    """The example in one namespace. ``volume``: the cluster-wide name of the volume with the results."""

    release: Release
    where: str
    volume: str

    @property
    def on_server(self) -> str:
        """The queue's name on the server."""
        return f"{self.where}.{NAME}"

    def prepare(self) -> None:
        """Creates the volume, the inspector pod, and the Secret with the server's URL."""
        cluster = self.release.cluster
        provide_volume(cluster, self.where, "results", self.volume)
        secret: dict[str, Any] = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "redis"}}
        secret["stringData"] = {"url": self.release.redis_url}
        cluster.apply(secret, _claim(), _inspector(self.release.images.checksums), namespace=self.where)
        cluster.kubectl("wait", "pod/inspector", f"--namespace={self.where}", "--for=condition=Ready", WAIT)

    def clear(self) -> None:
        """Deletes the queue, its pods and the volume."""
        cluster = self.release.cluster
        cluster.kubectl("delete", "rq", "--all", f"--namespace={self.where}", WAIT)
        cluster.kubectl("delete", "pv", self.volume, "--ignore-not-found", "--wait=false")

    def paths(self, count: int) -> list[str]:
        """``count`` files of the workers' image, and the unreadable paths."""
        found = self._run(f"find /usr /opt /var -xdev -type f 2>/dev/null | head -n {2 * count}")
        return [*[path for path in found if path.isascii()][:count], *UNREADABLE]

    def manifest(self) -> dict[str, Any]:
        """The example's manifest with the image of this checkout, a volume for the results and a shorter idle time."""
        document: dict[str, Any] = yaml.safe_load(MANIFEST.read_text())
        spec = document["spec"]
        spec["scaling"]["idleAfter"] = "15s"
        mount = {"name": "worker", "volumeMounts": [{"name": "results", "mountPath": "/results"}]}
        spec["worker"] |= {
            "image": self.release.images.checksums,
            "env": [{"name": "CHECKSUMS_RESULTS", "value": _RESULTS}],
            "template": {"spec": {"volumes": [_results_volume()], "containers": [mount]}},
        }
        return document

    def results(self) -> list[tuple[str, str, bytes]]:
        """The workers' results: (checksum, item id, path) each."""
        lines = [line.split(" ") for line in self._run(f"cat {_RESULTS}")]
        return [(checksum, item_id, unquote_to_bytes(path)) for checksum, item_id, path in lines]

    def sums(self, paths: Sequence[bytes]) -> dict[bytes, str]:
        """Path to checksum by `sha256sum`, without the unreadable paths."""
        names = "".join(f"{path.decode()}\n" for path in paths if path.decode() not in UNREADABLE)
        lines = self._run("xargs -d '\\n' sha256sum -- 2>/dev/null; true", stdin=names)
        return {path.encode(): checksum for checksum, _, path in (line.partition("  ") for line in lines)}

    def _run(self, script: str, stdin: str | None = None) -> list[str]:
        # Only where it is read: the API server may reset a connection if stdin still comes when the program ends.
        piped = () if stdin is None else ("--stdin",)
        words = ("exec", *piped, f"--namespace={self.where}", "inspector", "--", "sh", "-c", script)
        return self.release.cluster.kubectl(*words, stdin=stdin, timeout=180).splitlines()


def failed(queue: BlockingQueue) -> dict[str, tuple[bytes, str, int]]:
    """The items in *failed*: item id to (path, reason, requeue count)."""
    items = [located.item for located in queue.items(State.FAILED, 1000)]
    return {item.id: (item.payload, item.last_error or "", item.requeue_count) for item in items}


def _results_volume() -> dict[str, Any]:
    return {"name": "results", "persistentVolumeClaim": {"claimName": "results"}}


def _claim() -> dict[str, Any]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "results"},
        "spec": spec,
    }


def _inspector(image: str) -> dict[str, Any]:
    container = {
        "name": "inspector",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sleep", "3600"],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "results", "mountPath": "/results"}],
    }
    security = {"runAsNonRoot": True, "fsGroup": _SHARED_GROUP, "seccompProfile": {"type": "RuntimeDefault"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "inspector"},
        "spec": {
            "containers": [container],
            "securityContext": security,
            "terminationGracePeriodSeconds": 1,
            "volumes": [_results_volume()],
        },
    }
