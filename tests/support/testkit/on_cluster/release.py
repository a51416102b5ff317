"""A release of the chart on a cluster: installed, used, taken away again with everything that it left on purpose."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import redis

from claimq_kubernetes.port import Json
from clusterkit import Cluster, CommandFailed, HarnessError
from clusterkit.commands import WAIT, eventually
from clusterkit.own_cluster import OwnCluster
from testkit.on_cluster.cluster_images import ClusterImages
from testkit.repository.chart import FOLDER

CRD = "reliablequeues.claimq.dev"
USUAL = "--set=valkey.enabled=true"


@dataclass(frozen=True)
class Release:
    """One release, in a namespace of its own."""

    cluster: Cluster
    images: ClusterImages
    name: str
    namespace: str

    @property
    def operator(self) -> str:
        """The name of the operator's Deployment, service account and Lease."""
        return self.name if "claimq" in self.name else f"{self.name}-claimq"

    @property
    def valkey(self) -> str:
        """The name of the Service of its Valkey."""
        return f"{self.operator}-valkey"

    @property
    def redis_url(self) -> str:
        """Its Valkey, for queues in any namespace."""
        return f"redis://{self.valkey}.{self.namespace}.svc:6379/0"

    def install(self, *options: str) -> str:
        """`helm upgrade --install`, and waits until everything is ready.

        HarnessError with the warnings of its namespace: of a pod that does not come helm says only that it waited.
        """
        where = f"--namespace={self.namespace}"
        words = ("upgrade", "--install", self.name, str(FOLDER), where, "--wait", WAIT)
        try:
            return self.cluster.helm(*words, *self.images.values(), *options)
        except CommandFailed as error:
            asked = ("get", "events", where, "--field-selector=type=Warning", "--sort-by=.lastTimestamp")
            said = self.cluster.run("kubectl", *asked, check=False).stdout
            raise HarnessError(f"{error}\nwarnings of the namespace:\n{said[-3000:]}") from error

    def install_as_usual(self) -> None:
        """As the tests share it: one operator, and a Valkey. Values of an earlier install are forgotten."""
        self.install(USUAL)
        self.wait_for_operators()

    @contextmanager
    def installed_with(self, *options: str) -> Generator[None]:
        """Upgraded with these options, and as usual again at the end."""
        try:
            self.install(USUAL, *options)
            yield
        finally:
            self.install_as_usual()

    @contextmanager
    def server_url(self) -> Generator[str]:
        """The release's Valkey, for a program outside of the cluster, once it answers there: its pod is ready before
        every part of the cluster has heard of it."""
        with self.cluster.forward(self.namespace, self.valkey, 6379) as port:
            wait_until_answering(url := f"redis://127.0.0.1:{port}/0")
            yield url

    @contextmanager
    def operator_with(self, **environment: str) -> Generator[None]:
        """The operator with these variables, and as it was before again at the end."""
        try:
            self._set([f"{name}={value}" for name, value in environment.items()])
            yield
        finally:
            self._set([f"{name}-" for name in environment])

    def _set(self, words: list[str]) -> None:
        where = (f"deployment/{self.operator}", f"--namespace={self.namespace}")
        self.cluster.kubectl("set", "env", *where, *words)
        self.cluster.kubectl("rollout", "status", *where, WAIT)

    def get(self, *what: str) -> Any:
        """`kubectl get -o json`."""
        return json.loads(self.cluster.kubectl("get", "-o", "json", *what))

    def pods(self, component: str = "operator") -> dict[str, Json]:
        """The pods of a component (operator, valkey) by name, without those that are ending."""
        query = f"labelSelector=app.kubernetes.io%2Finstance%3D{self.name},app.kubernetes.io%2Fcomponent%3D{component}"
        path = f"/api/v1/namespaces/{self.namespace}/pods?{query}"
        found = cast("Json", self.cluster.api("GET", path))["items"]
        return {one["metadata"]["name"]: one for one in found if "deletionTimestamp" not in one["metadata"]}

    def wait_for_operators(self, count: int = 1) -> None:
        """Until so many run, all of them ready and of the newest template."""
        deployment = f"deployment/{self.operator}"
        words = ("rollout", "status", deployment, f"--namespace={self.namespace}", WAIT)
        self.cluster.kubectl(*words)
        eventually(f"{count} operators run", lambda: len(self.pods()) == count, every=0.2)

    def wait_for_leader(self, *, after: str = "") -> str:
        """The operator that leads, once one of those that run does: not one that is ending, and not `after`."""
        found: list[str] = []

        def is_known() -> bool:
            path = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/{self.operator}"
            lease = cast("Json", self.cluster.api("GET", path))
            found[:] = [str(lease["spec"].get("holderIdentity") or "")]
            return found[0] != after and found[0] in self.pods()

        eventually("one of the operators leads", is_known, every=0.2)
        return found[0]

    def stop_operators(self) -> None:
        """None is wanted, and none is left that still ends. `install_as_usual` brings them back."""
        where = f"--namespace={self.namespace}"
        self.cluster.kubectl("scale", f"deployment/{self.operator}", where, "--replicas=0")
        ours = f"app.kubernetes.io/instance={self.name},app.kubernetes.io/component=operator"
        words = ("wait", "pods", f"--selector={ours}", where, "--for=delete", WAIT)
        self.cluster.kubectl(*words)

    def delete_the_tests_pod(self) -> None:
        """As charts/claimq/README.md says: the pod of the last `helm test` stays for its log."""
        self.cluster.kubectl(
            "delete",
            "pod",
            f"--namespace={self.namespace}",
            "--selector=app.kubernetes.io/component=test",
            "--ignore-not-found",
        )

    def uninstall(self) -> None:
        """`helm uninstall`, and the definition; the claim of its volume stays. Queues must be gone already."""
        self.cluster.helm(
            "uninstall", self.name, f"--namespace={self.namespace}", "--wait", "--ignore-not-found"
        )
        self.delete_the_tests_pod()
        self.cluster.kubectl("wait", "pods", "--all", f"--namespace={self.namespace}", "--for=delete", WAIT)
        self.cluster.kubectl("delete", "crd", CRD, "--ignore-not-found", WAIT)


def wait_until_answering(url: str) -> None:
    """Until the server at a forwarded port answers."""

    def answers() -> bool:
        try:
            with redis.Redis.from_url(url, socket_timeout=5, socket_connect_timeout=5, retry=None) as server:
                return bool(server.ping())
        except (redis.ConnectionError, redis.TimeoutError, redis.BusyLoadingError):
            return False

    eventually(f"the server at {url} answers", answers, every=0.2)


def provide_volume(cluster: Cluster, where: str, claim: str, name: str) -> None:
    """A volume and a claim bound to it, on the first node of a cluster that has no storage class; else nothing.

    The claim is bound before a pod needs it: a pod that the scheduler saw too early may wait for five minutes.
    """
    if not isinstance(cluster, OwnCluster):
        return
    node, path = cluster.nodes[0], f"/var/lib/{name}"
    cluster.run_on_node(node, "sh", "-c", f"rm -rf {path} && mkdir {path}")
    on_it = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    size, modes = {"storage": "1Gi"}, ["ReadWriteOnce"]
    cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": {
                "capacity": size,
                "accessModes": modes,
                "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": {"namespace": where, "name": claim},
                "local": {"path": path},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_it]}]}},
            },
        }
    )
    cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": claim, "namespace": where},
            "spec": {"accessModes": modes, "resources": {"requests": size}},
        }
    )
    bound = "--for=jsonpath={.status.phase}=Bound"
    cluster.kubectl("wait", f"pvc/{claim}", f"--namespace={where}", bound, WAIT)


def refuse_if_installed(cluster: Cluster) -> None:
    """HarnessError on a cluster that has queues already: taking the release away would delete them."""
    if CRD in cluster.kubectl("get", "crd", "-o", "name"):
        raise HarnessError(
            f"the cluster {cluster.name!r} has ReliableQueues already (or still their definition), and they would be "
            "deleted at the end: uninstall claimq there (README.md), or use another cluster (CLAIMQ_CLUSTER=another, "
            "without KUBE_CONTEXT, brings one up)"
        )


@contextmanager
def namespace(cluster: Cluster, name: str, *, wait: bool = True) -> Generator[str]:
    """A namespace that takes only `restricted` pods; deleted at the end, and waited for unless `wait` is False.

    Kubernetes looks again at a namespace whose pods are ending only after half their grace period: end them before.
    """
    create_namespace(cluster, name)
    try:
        yield name
    finally:
        if wait:
            cluster.kubectl("delete", "namespace", name, WAIT)
        else:
            cluster.api("DELETE", f"/api/v1/namespaces/{name}")


def create_namespace(cluster: Cluster, name: str) -> None:
    """A namespace that takes only `restricted` pods, once pods can be made in it."""
    labels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
    made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    cluster.api("PATCH", f"/api/v1/namespaces/{name}?fieldManager=tests&force=true", made, patch="apply")
    accounts = f"/api/v1/namespaces/{name}/serviceaccounts?fieldSelector=metadata.name%3Ddefault"
    eventually("it has a service account", lambda: bool(listed(cluster, accounts)))


def delete_queues(cluster: Cluster, name: str) -> None:
    """Delete the queues of a namespace, which fails when the operator does not release one."""
    path = f"/apis/claimq.dev/v1alpha1/namespaces/{name}/reliablequeues"
    cluster.api("DELETE", path)
    eventually("the queues are gone", lambda: not listed(cluster, path))


def listed(cluster: Cluster, path: str) -> list[Json]:
    """The objects of a list."""
    found: list[Json] = cast("Json", cluster.api("GET", path))["items"]
    return found


def is_rolled_out(cluster: Cluster, path: str) -> bool:
    """Whether all pods of a Deployment or StatefulSet are available and of its newest template."""
    found = cast("Json", cluster.api("GET", path))
    status, wanted = found["status"], found["spec"]["replicas"]
    counts = [status.get(name, 0) for name in ("replicas", "updatedReplicas", "availableReplicas")]
    return status.get("observedGeneration") == found["metadata"]["generation"] and counts == [wanted] * 3


def the_row(table: str) -> dict[str, str]:
    """Of what `kubectl get` prints for one object: column to text."""
    head, line = table.splitlines()
    starts = [at for at, sign in enumerate(head) if sign != " " and (at == 0 or head[at - 2 : at] == "  ")]
    ends = [*starts[1:], None]
    return {head[start:end].strip(): line[start:end].strip() for start, end in zip(starts, ends, strict=True)}
