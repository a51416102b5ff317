"""Servers for queues on a cluster: the release's own Valkey, and others beside it."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from claimq_kubernetes.port import Json
from clusterkit.commands import WAIT
from testkit.on_cluster.release import Release, wait_until_answering


@dataclass(frozen=True)
class Address:
    """One server's URL for pods, and that for programs outside of the cluster."""

    inside: str
    outside: str


@contextmanager
def on_release(release: Release) -> Generator[Address]:
    """The release's own Valkey."""
    with release.server_url() as outside:
        yield Address(release.redis_url, outside)


@contextmanager
def another_valkey(release: Release, namespace: str) -> Generator[Address]:
    """A Valkey of its own in a namespace, without a volume; it goes with the namespace. On the node of the release's,
    so that cutting off another node concerns neither."""
    name = "another"
    labels = {"app": name}
    restricted: Json = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    container: Json = {
        "name": "valkey",
        "image": release.images.valkey,
        "command": ["valkey-server"],
        "args": ["--save", "", "--maxmemory-policy", "noeviction", "--protected-mode", "no"],
        "ports": [{"containerPort": 6379}],
        "readinessProbe": {"tcpSocket": {"port": 6379}, "periodSeconds": 1},
        "securityContext": restricted,
    }
    spec: Json = {
        "containers": [container],
        "nodeSelector": {"kubernetes.io/hostname": release.cluster.nodes[0]},
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    release.cluster.apply(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name},
            "spec": {"selector": labels, "ports": [{"port": 6379}]},
        },
        namespace=namespace,
    )
    words = ("wait", f"pod/{name}", f"--namespace={namespace}", "--for=condition=Ready", WAIT)
    release.cluster.kubectl(*words)
    with release.cluster.forward(namespace, name, 6379) as port:
        wait_until_answering(outside := f"redis://127.0.0.1:{port}/0")
        yield Address(f"redis://{name}.{namespace}.svc:6379/0", outside)
