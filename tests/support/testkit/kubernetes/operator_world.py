"""The operator on a real API server without a cluster: it watches, applies and writes; the tests play the kubelet."""

import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, cast

from claimq_kubernetes.port import Json
from testkit.kubernetes.api_server import ApiServer
from testkit.kubernetes.kubernetes_objects import replica_set
from testkit.programs.forked import ForkedProcess
from testkit.programs.places import new_directory
from testkit.programs.ports import free_port
from testkit.servers.server import Server
from testkit.waiting import PATIENCE, eventually_sync

_KINDS = {
    "rq": ("apis/claimq.dev/v1alpha1", "reliablequeues"),
    "deployment": ("apis/apps/v1", "deployments"),
    "secret": ("api/v1", "secrets"),
    "lease": ("apis/coordination.k8s.io/v1", "leases"),
    "poddisruptionbudget": ("apis/policy/v1", "poddisruptionbudgets"),
    "pod": ("api/v1", "pods"),
    "event": ("api/v1", "events"),
}
"""Kind to its API group and its name in paths."""


class Operator:
    """One operator process on the API server."""

    def __init__(self, api: ApiServer, namespace: str, **environment: str) -> None:
        self.port = free_port()
        self.log = new_directory() / "log"
        settings = {
            "CLAIMQ_SIDECAR_IMAGE": "claimq-sidecar:1",
            "CLAIMQ_OPERATOR_NAMESPACE": namespace,
            "CLAIMQ_NAMESPACES": namespace,
            "CLAIMQ_HTTP_HOST": "127.0.0.1",
            "CLAIMQ_HTTP_PORT": str(self.port),
            "CLAIMQ_BUSY_PERIOD": "200ms",
            "CLAIMQ_STATUS_PERIOD": "1s",
            # A leader that stands still for a while does not lose the lease, and with it its series.
            "CLAIMQ_LEASE_DURATION": "30s",
        }
        environment = {**api.environment(), **settings, **environment}
        self.process = ForkedProcess("claimq_operator", log=self.log, env=environment)

    def get(self, path: str) -> tuple[int, str]:
        """A request to its port; status 0 while it does not listen."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's series with these labels; 0 if there is none."""
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        lines = (
            line for line in self.metrics_page().splitlines() if line.startswith((name + "{", name + " "))
        )
        return sum(float(line.rpartition(" ")[2]) for line in lines if all(one in line for one in wanted))

    def logs(self, words: str, times: int = 1) -> bool:
        """Whether its log has these words so many times."""
        return self.log.read_text(errors="replace").count(words) >= times

    def metrics_page(self) -> str:
        """The page of metrics; a request that a slow machine did not answer is no page without series."""
        found: list[str] = []

        def is_answered() -> bool:
            status, page = self.get("/metrics")
            found[:] = [page]
            return status == 200

        eventually_sync(is_answered, why="the operator serves its metrics", needs=[self.process])
        return found[0]


class World:
    """A namespace of a test's own, with a server for its queues and what acts in it."""

    def __init__(self, api: ApiServer, redis: Server, namespace: str, stack: ExitStack) -> None:
        self.api = api
        self.redis = redis
        self.namespace = namespace
        self.operators: list[Operator] = []
        self._stack = stack

    def operator(self, **environment: str) -> Operator:
        """Starts an operator and waits until it has listed everything."""
        made = Operator(self.api, self.namespace, **environment)
        self._stack.callback(made.process.kill9)
        self.operators.append(made)
        eventually_sync(
            lambda: made.get("/readyz")[0] == 200, why="the operator is ready", needs=[made.process]
        )
        return made

    def queue(self, name: str = "thumbs", **spec: Any) -> Json:
        """Creates a queue on this world's server."""
        whole: Json = {"redis": {"url": self.redis.tcp_url}, "worker": {"image": "app:1"}, **spec}
        return cast("Json", self.api.create(self.manifest(name, whole)))

    def manifest(self, name: str, spec: Json) -> Json:
        metadata = {"name": name, "namespace": self.namespace}
        return {
            "apiVersion": "claimq.dev/v1alpha1",
            "kind": "ReliableQueue",
            "metadata": metadata,
            "spec": spec,
        }

    def get(self, kind: str, name: str) -> Json:
        """One object; an empty one if there is none. It is polled, and a request costs less than a kubectl."""
        status, found = self.api.request("GET", f"{self._list(kind)}/{name}")
        if status == 404:
            return {}
        assert status == 200, found
        return cast("Json", found)

    def _list(self, kind: str) -> str:
        """The path of the objects of a kind."""
        group, plural = _KINDS[kind]
        return f"/{group}/namespaces/{self.namespace}/{plural}"

    def status(self, name: str = "thumbs") -> Json:
        found: Json = self.get("rq", name).get("status", {})
        return found

    def condition(self, kind: str, name: str = "thumbs") -> str:
        """`Status Reason` of a condition."""
        listed = self.status(name).get("conditions", [])
        return next((f"{one['status']} {one['reason']}" for one in listed if one["type"] == kind), "")

    def replicas(self, name: str = "thumbs") -> int | None:
        count: int | None = self.get("deployment", f"{name}-worker").get("spec", {}).get("replicas")
        return count

    def wait_until_working(self) -> None:
        """Waits until the queue `thumbs` works."""
        eventually_sync(lambda: self.condition("Ready") == "True Working")

    def wait_for_replicas(self, count: int, name: str = "thumbs") -> None:
        """Waits until the Deployment has this number of replicas."""
        eventually_sync(lambda: self.replicas(name) == count)

    def patch(self, kind: str, name: str, changes: Json, part: str = "") -> None:
        """A merge patch of an object, or of a part of it such as `/status`."""
        status, changed = self.api.request("PATCH", f"{self._list(kind)}/{name}{part}", changes)
        assert status == 200, changed

    def events(self) -> dict[str, str]:
        """The reasons of all events, each with the message of one of that reason."""
        status, listed = self.api.request("GET", self._list("event"))
        assert status == 200, listed
        return {one["reason"]: one["message"] for one in listed["items"]}

    def claimq(
        self,
        *arguments: str,
        program: tuple[str, ...] = ("-m", "claimq_cli"),
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Runs the command with kubectl's configuration for the API server."""
        return subprocess.run(
            [sys.executable, *program, *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
            cwd=self.api.dir,
            env={**self.api.environment(), **(environment or {})},
        )

    def reported(self) -> dict[str, str]:
        """For who reads a failure: title to text, of what each operator said and how the objects are."""
        reported = {
            f"log of operator {number}": made.log.read_text(errors="replace")[-8000:]
            for number, made in enumerate(self.operators, 1)
            if made.log.exists()
        }
        words = ("describe", "reliablequeues,deployments,pods", "-n", self.namespace)
        try:
            done = self.api.kubectl_run(*words)
            described = (done.stdout + done.stderr)[-8000:]
        except (OSError, subprocess.SubprocessError) as error:
            described = str(error)  # the failure itself is what has to be seen
        return {**reported, f"kubectl {' '.join(words)}": described}

    def pod(self, name: str, queue: str = "thumbs", **status: Any) -> Json:
        """A worker pod as the Deployment's controller would make it, with the status that the kubelet would write."""
        labels = {
            "claimq.dev/queue": queue,
            "app.kubernetes.io/component": "worker",
            "pod-template-hash": "a",
        }
        spec = {
            "nodeName": "node-1",
            "containers": [{"name": "worker", "image": "app:1"}],
            "initContainers": [{"name": "claimq-sidecar", "image": "sidecar:1", "restartPolicy": "Always"}],
        }
        owners = [replica_set(queue, "a")]
        metadata = {"name": name, "namespace": self.namespace, "labels": labels, "ownerReferences": owners}
        self.api.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        self.pod_status(name, **status)
        return self.get("pod", name)

    def pod_status(self, name: str, **status: Any) -> None:
        running = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
        whole: Json = {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            "initContainerStatuses": [container("claimq-sidecar", running)],
            "containerStatuses": [container("worker", running)],
            **status,
        }
        self.patch("pod", name, {"status": whole}, "/status")


def container(name: str, state: Json, **more: Any) -> Json:
    """The status of a container."""
    return {
        "name": name,
        "image": f"{name}:1",
        "imageID": "",
        "ready": "running" in state,
        "restartCount": 0,
        "state": state,
        **more,
    }
