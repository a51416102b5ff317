"""Whether the kernel has enough inotify instances for a cluster; with too few, kubelets fail without a clear error."""

import ctypes
import os
import time
from pathlib import Path

from clusterkit.errors import HarnessError
from clusterkit.toolchain import say

_LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")
# Counted on clusters that run: a kubelet and its containerd hold 7, the control plane 8. Half as many again for pods.
_PER_NODE = 11
_PER_CLUSTER = 12


def wait_for_watches(nodes: int, seconds: float) -> None:
    """Waits until there are enough for a cluster of so many nodes; HarnessError if there are not after `seconds`."""
    deadline = time.monotonic() + seconds
    announced = False
    while short := shortage(nodes):
        if time.monotonic() >= deadline:
            raise HarnessError(short)
        if not announced:
            say(f"waiting up to {seconds:g} s for other clusters to go: {short}")
            announced = True
        time.sleep(1)


def shortage(nodes: int) -> str | None:
    """What to do about too few inotify instances for a cluster of so many nodes; None when there are enough.

    It takes as many as the cluster will, and puts them back.
    """
    wanted = _PER_CLUSTER + _PER_NODE * nodes
    library = ctypes.CDLL(None, use_errno=True)
    taken: list[int] = []
    try:
        for _ in range(wanted):
            descriptor = int(library.inotify_init1(os.O_CLOEXEC))
            if descriptor < 0:
                break
            taken.append(descriptor)
    finally:
        for descriptor in taken:
            os.close(descriptor)
    if len(taken) == wanted:
        return None
    limit = _LIMIT.read_text().strip()
    return (
        f"a cluster with {nodes} nodes needs {wanted} inotify instances and the kernel has {len(taken)} left of "
        f"{limit}; take other clusters down (make cluster-down), or allow more: sysctl "
        f"fs.inotify.max_user_instances=1024"
    )
