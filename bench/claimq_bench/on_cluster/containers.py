"""Processes of containers on a cluster of our own, as the machine sees them; and their sudden death."""

import os
import signal
from pathlib import Path
from typing import Any

from clusterkit import Cluster, HarnessError
from clusterkit.own_cluster import OwnCluster

SCHEME = "containerd://"


def pid_of(cluster: Cluster, pod: dict[str, Any], container: str) -> int | None:
    """The first process of a running container; None where the machine is not the node."""
    if not isinstance(cluster, OwnCluster):
        return None
    status = pod["status"]
    for one in (*status.get("containerStatuses", []), *status.get("initContainerStatuses", [])):
        if one["name"] == container and "running" in one["state"]:
            return _pid(cluster, pod["spec"]["nodeName"], one["containerID"].removeprefix(SCHEME))
    raise HarnessError(f"the container {container} of {pod['metadata']['name']} does not run")


def _pid(cluster: OwnCluster, node: str, container: str) -> int:
    """Only if its cgroup says that it is this container's: nothing else is ever killed."""
    listed = cluster.run_on_node(node, "ctr", "--namespace=k8s.io", "tasks", "ls")
    for line in listed.splitlines():
        name, pid, *_ = line.split()
        if name == container and container in Path(f"/proc/{pid}/cgroup").read_text():
            return int(pid)
    raise HarnessError(f"the container {container} has no process on {node}")


def kill(*pids: int) -> None:
    """SIGKILL. Each is the first process of a container, so all others in it die with it."""
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
