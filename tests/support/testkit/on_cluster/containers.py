"""Containers that run on a cluster of our own, met from outside of it as the kernel or an administrator would."""

import ipaddress
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from claimq_kubernetes.port import Json
from clusterkit import Cluster
from clusterkit.commands import eventually
from clusterkit.own_cluster import OwnCluster

_ESTABLISHED = "01"


@dataclass(frozen=True)
class Container:
    """A container that was running when it was looked for. `number`: its id on the node."""

    cluster: OwnCluster
    node: str
    pod: str
    address: str
    number: str

    def kill(self) -> None:
        """SIGKILL to all its processes."""
        self._signal("SIGKILL")

    @contextmanager
    def frozen(self) -> Generator[None]:
        """Stopped by SIGSTOP: its connections stay and are accepted, and get no answer."""
        self._signal("SIGSTOP")
        try:
            yield
        finally:
            self._signal("SIGCONT")

    def process(self) -> int:
        """The number of its first process on this machine."""
        for line in self._tasks("list").splitlines():
            words = line.split()
            if words[0] == self.number:
                return int(words[1])
        raise AssertionError(f"{self.number} of {self.pod} is not running on {self.node}")

    def _signal(self, name: str) -> None:
        self._tasks("kill", f"--signal={name}", "--all", self.number)

    def _tasks(self, *words: str) -> str:
        return self.cluster.run_on_node(self.node, "ctr", "--namespace=k8s.io", "tasks", *words)


def running(cluster: Cluster, namespace: str, pod: str, name: str) -> Container:
    """The container `name` of a pod; the kubelet says so a moment after it has started."""
    assert isinstance(cluster, OwnCluster)
    found: list[Container] = []

    def is_running() -> bool:
        known = cast("Json", cluster.api("GET", f"/api/v1/namespaces/{namespace}/pods/{pod}"))
        status, node = known["status"], known["spec"].get("nodeName", "")
        found[:] = [
            Container(
                cluster, node, pod, status.get("podIP", ""), one["containerID"].removeprefix("containerd://")
            )
            for one in (*status.get("containerStatuses", []), *status.get("initContainerStatuses", []))
            if one["name"] == name and "running" in one["state"]
        ]
        return bool(found)

    eventually(f"the container {name} of {pod} runs", is_running, every=0.1)
    return found[0]


def unread_from(process: int, address: str) -> int:
    """Bytes that have come from an address to a process's network and that were not read there yet."""
    total = 0
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{process}/net/{table}").read_text().splitlines()[1:]:
            _, _, remote, state, queues, *_ = line.split()
            if state == _ESTABLISHED and _address(remote.partition(":")[0]) == address:
                total += int(queues.partition(":")[2], 16)
    return total


def _address(shown: str) -> str:
    """An address out of the kernel's table: words of four bytes, each with its last byte first."""
    raw = b"".join(bytes.fromhex(shown[at : at + 8])[::-1] for at in range(0, len(shown), 8))
    if len(raw) == 4:
        return str(ipaddress.IPv4Address(raw))
    whole = ipaddress.IPv6Address(raw)
    return str(whole.ipv4_mapped or whole)
