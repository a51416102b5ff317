"""One ReliableQueue on a real cluster, as a test sees it: its object, its pods, its items, and who holds them."""

import json
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import redis

import claimq.blocking
from claimq.blocking import BlockingQueue
from claimq.errors import StoreUnavailable
from claimq.model import State
from clusterkit import Cluster
from clusterkit.commands import eventually
from clusterkit.own_cluster import OwnCluster
from testkit import ledger
from testkit.ledger import Ledger
from testkit.release import Release

Json = dict[str, Any]
APP, SIDECAR = "worker", "claimq-sidecar"


@dataclass(frozen=True)
class QueueOnCluster:
    """`items` reaches the queue on the release's Valkey through a forwarded port."""

    release: Release
    namespace: str
    name: str
    items: BlockingQueue
    url: str
    known: list[str] = field(default_factory=list[str])

    @property
    def cluster(self) -> Cluster:
        return self.release.cluster

    @property
    def on_server(self) -> str:
        """The queue's name on the server."""
        return f"{self.namespace}.{self.name}"

    def apply(
        self, *, program: str = ledger.WORKER, seconds: float = 0.05, version: str = "", **spec: Any
    ) -> None:
        """Applies the manifest. `program` is Python that runs in the sidecar's image, `version` what it calls itself in
        the ledger; `worker` and others of `spec` are joined to what is said here."""
        env = {
            "LEDGER": ledger.key(self.on_server),
            "LEDGER_URL": self.release.redis_url,
            "WORK_SECONDS": str(seconds),
            "VERSION": version,
        }
        worker: Json = {
            "image": self.release.images.sidecar,
            "command": ["python", "-c"],
            "args": [program],
            "drainTimeout": "20s",
            "env": [{"name": name, "value": value} for name, value in env.items()],
        }
        worker |= cast("Json", spec.pop("worker", {}))
        self.cluster.apply(
            {
                "apiVersion": "claimq.dev/v1alpha1",
                "kind": "ReliableQueue",
                "metadata": {"name": self.name, "namespace": self.namespace},
                "spec": {"redis": {"url": self.release.redis_url}, "worker": worker, **spec},
            }
        )

    def delete(self) -> None:
        """`kubectl delete`, which does not wait for the end."""
        self.cluster.kubectl("delete", "rq", self.name, f"--namespace={self.namespace}", "--wait=false")

    def is_gone(self) -> bool:
        """Whether the object is gone."""
        path = f"/apis/claimq.dev/v1alpha1/namespaces/{self.namespace}/reliablequeues"
        found = cast("Json", self.cluster.api("GET", path))["items"]
        return self.name not in [one["metadata"]["name"] for one in found]

    def patch(self, spec: Mapping[str, Any]) -> None:
        """A merge patch of the spec."""
        words = ("patch", "rq", self.name, f"--namespace={self.namespace}", "--type=merge", "--patch")
        self.cluster.kubectl(*words, json.dumps({"spec": spec}))

    def enqueue(self, count: int, prefix: str = "item") -> list[str]:
        """Enqueues so many; their ids, which `known` keeps too."""
        made = self.items.enqueue_many(f"{prefix}-{number}" for number in range(count)).ids
        self.known.extend(made)
        return list(made)

    # What the cluster says.

    def get(self) -> Json:
        """The object."""
        return cast("Json", self.release.get("rq", self.name, f"--namespace={self.namespace}"))

    def condition(self, kind: str) -> str:
        """`True Working`: status and reason of a condition; empty if it is not there."""
        for one in self.get().get("status", {}).get("conditions", []):
            if one["type"] == kind:
                return f"{one['status']} {one['reason']}"
        return ""

    def message(self, kind: str) -> str:
        """The message of a condition; empty if it is not there."""
        for one in self.get().get("status", {}).get("conditions", []):
            if one["type"] == kind:
                return str(one["message"])
        return ""

    def row(self) -> dict[str, str]:
        """The row of `kubectl get rq`, column to text."""
        head, line = self.cluster.kubectl(
            "get", "rq", self.name, f"--namespace={self.namespace}"
        ).splitlines()
        starts = [
            at for at, sign in enumerate(head) if sign != " " and (at == 0 or head[at - 2 : at] == "  ")
        ]
        ends = [*starts[1:], None]
        return {
            head[start:end].strip(): line[start:end].strip() for start, end in zip(starts, ends, strict=True)
        }

    def replicas(self) -> int | None:
        """What the worker Deployment asks for; None while there is none."""
        path = f"/apis/apps/v1/namespaces/{self.namespace}/deployments"
        for one in cast("Json", self.cluster.api("GET", path))["items"]:
            if one["metadata"]["name"] == f"{self.name}-worker":
                return int(one["spec"]["replicas"])
        return None

    def pods(self) -> dict[str, Json]:
        """Worker pods by name, those that are ending too."""
        path = f"/api/v1/namespaces/{self.namespace}/pods?labelSelector=claimq.dev/queue%3D{self.name}"
        found = cast("Json", self.cluster.api("GET", path))["items"]
        return {one["metadata"]["name"]: one for one in found}

    def revisions(self) -> dict[str, set[str]]:
        """Template (its hash) to the worker pods that were made from it and are not told to end."""
        found: dict[str, set[str]] = {}
        for name, pod in self.pods().items():
            if "deletionTimestamp" not in pod["metadata"]:
                found.setdefault(pod["metadata"]["labels"]["pod-template-hash"], set()).add(name)
        return found

    def events(self) -> dict[str, str]:
        """Reason to the last message of the queue's events."""
        path = f"/api/v1/namespaces/{self.namespace}/events?fieldSelector=involvedObject.name%3D{self.name}"
        found = cast("Json", self.cluster.api("GET", path))["items"]
        return {one["reason"]: one["message"] for one in found}

    # What the server says.

    def counters(self) -> dict[str, int]:
        """What has happened to the items (`done`, `crashes`, ...), and `in main` and so on."""
        seen = self.items.snapshot()
        return {**seen.counters, **{f"in {state.value}": count for state, count in seen.lengths.items()}}

    def holders(self) -> dict[str, int]:
        """Pod to the number of items that it has in hand now; pods without are left out."""
        found: dict[str, int] = {}
        for info in self.items.workers():
            if info.busy:
                pod = info.worker.partition(".")[0]
                found[pod] = found.get(pod, 0) + info.busy
        return found

    def keys(self) -> set[str]:
        """The keys of the queue on the server, those that end by themselves left out."""
        with redis.Redis.from_url(self.url, decode_responses=True) as server:
            found = cast("Iterator[str]", server.scan_iter(f"cq:{{{self.on_server}}}:*", count=1000))
            return {key for key in found if server.ttl(key) == -1}

    def open(self, *texts: str) -> None:
        """Lets workers that run `ledger.GATED` end the items with these texts, now and later."""
        with redis.Redis.from_url(self.url) as server:
            server.sadd(ledger.gate(self.on_server), *texts)

    def ledger(self) -> Ledger:
        return ledger.read(self.url, self.on_server)

    # Waiting and breaking.

    def wait(
        self, what: str, probe: Callable[[], object], *, timeout: float = 120, every: float = 0.2
    ) -> None:
        """Until `probe()` is true; a server that is out of reach just now counts as not yet."""

        def asked() -> bool:
            try:
                return bool(probe())
            except StoreUnavailable:
                return False

        eventually(what, asked, timeout=timeout, every=every, why_not=self._tell)

    def wait_until_done(self, count: int | None = None, *, timeout: float = 180) -> None:
        """Until so many items (default: all that were enqueued here) are done and none is left but in failed."""
        wanted = len(self.known) if count is None else count

        def is_done() -> bool:
            seen = self.counters()
            return seen.get("done", 0) >= wanted and not any(
                seen[f"in {state.value}"] for state in State if state is not State.FAILED
            )

        self.wait(f"{wanted} items are done", is_done, timeout=timeout)

    def wait_for_a_holder(self, at_least: int = 1, *, timeout: float = 120) -> str:
        """A pod that has items in hand."""
        self.wait("somebody has items in hand", lambda: self._holder(at_least), timeout=timeout, every=0.05)
        return self._holder(at_least) or self.wait_for_a_holder(at_least, timeout=timeout)

    def _holder(self, at_least: int) -> str | None:
        return next((pod for pod, count in self.holders().items() if count >= at_least), None)

    def kill_container(self, pod: str, container: str = APP) -> None:
        """SIGKILL to all processes of a container of the pod, from outside, as the kernel would."""
        node, number = self._container(pod, container)
        self._own().run_on_node(
            node, "ctr", "--namespace=k8s.io", "tasks", "kill", "--signal=SIGKILL", "--all", number
        )

    def force_delete(self, pod: str) -> None:
        """The pod without a grace period, as somebody does who is in a hurry."""
        self.cluster.kubectl(
            "delete", "pod", pod, f"--namespace={self.namespace}", "--grace-period=0", "--force"
        )

    def _container(self, pod: str, container: str) -> tuple[str, str]:
        """The node of a running container, and its id there; the kubelet says so a moment after it has started."""
        found: list[str] = []

        def is_running() -> bool:
            known = self.pods()[pod]
            states = known["status"]
            ids = [
                one["containerID"].removeprefix("containerd://")
                for one in (*states.get("containerStatuses", []), *states.get("initContainerStatuses", []))
                if one["name"] == container and "running" in one["state"]
            ]
            found[:] = [known["spec"]["nodeName"], *ids] if ids else []
            return bool(found)

        self.wait(f"the container {container} of {pod} runs", is_running, timeout=60)
        return found[0], found[1]

    def _own(self) -> OwnCluster:
        assert isinstance(self.cluster, OwnCluster)
        return self.cluster

    def _tell(self) -> str:
        try:
            seen = f"{self.counters()}, held by {self.holders()}"
        except StoreUnavailable as error:
            seen = str(error)
        pods = {name: pod["status"].get("phase") for name, pod in self.pods().items()}
        return f"{seen}; pods {pods}; replicas {self.replicas()}"


@contextmanager
def queue_on(release: Release, namespace: str, name: str = "work") -> Generator[QueueOnCluster]:
    """A queue of the release's Valkey that nobody has applied yet."""
    with release.server_url() as url, claimq.blocking.connect(url) as server:
        yield QueueOnCluster(release, namespace, name, server.queue(f"{namespace}.{name}"), url)
