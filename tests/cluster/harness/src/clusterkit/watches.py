"""Whether the kernel has enough inotify instances for a cluster; with too few, kubelets fail without a clear error."""

import ctypes
import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from clusterkit.errors import HarnessError
from clusterkit.toolchain import exclusively, say

_LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")
# Counted on clusters that run: a kubelet and its containerd hold 7, the control plane 8. Half as many again for pods.
_PER_NODE = 11
_PER_CLUSTER = 12


@contextmanager
def reserved_watches(file: Path, nodes: int, seconds: float) -> Generator[None]:
    """Waits until there are enough for a cluster of so many nodes, and keeps them for it inside the block.

    A cluster takes them little by little while it starts. `file` says how many it will take; it counts only while this
    process holds its lock. HarnessError if there are too few after `seconds`.
    """
    deadline = time.monotonic() + seconds
    announced = False
    with file.open("w") as reservation:
        try:
            while short := _reserve(reservation, file, nodes):
                if time.monotonic() >= deadline:
                    raise HarnessError(short)
                if not announced:
                    say(f"waiting up to {seconds:g} s for other clusters to go: {short}")
                    announced = True
                time.sleep(1)
            yield
        finally:
            file.unlink(missing_ok=True)


def _reserve(reservation: TextIO, file: Path, nodes: int) -> str | None:
    """Reserves the instances; what to do if there are too few."""
    with exclusively(file.parent / "watches"):
        others = sum(_reserved_in(one) for one in file.parent.glob(f"*{file.suffix}") if one != file)
        short = shortage(nodes, starting=others)
        if short is None:
            fcntl.flock(reservation, fcntl.LOCK_EX)
            reservation.write(str(_wanted(nodes)))
            reservation.flush()
        return short


def _reserved_in(file: Path) -> int:
    with suppress(FileNotFoundError), file.open() as reservation:
        try:
            fcntl.flock(reservation, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return int(reservation.read())
    return 0  # its process waits, or has ended


def _wanted(nodes: int) -> int:
    return _PER_CLUSTER + _PER_NODE * nodes


def shortage(nodes: int, *, starting: int = 0) -> str | None:
    """What to do about too few inotify instances for a cluster of so many nodes; None when there are enough.

    It takes as many as the cluster will and those that are `starting` may, and puts them back.
    """
    wanted = _wanted(nodes)
    library = ctypes.CDLL(None, use_errno=True)
    taken: list[int] = []
    try:
        for _ in range(wanted + starting):
            descriptor = int(library.inotify_init1(os.O_CLOEXEC))
            if descriptor < 0:
                break
            taken.append(descriptor)
    finally:
        for descriptor in taken:
            os.close(descriptor)
    left = len(taken) - starting
    if left == wanted:
        return None
    limit = _LIMIT.read_text().strip()
    return (
        f"a cluster with {nodes} nodes needs {wanted} inotify instances and the kernel has {max(left, 0)} left of "
        f"{limit}; take other clusters down (make cluster-down), or allow more: sysctl "
        f"fs.inotify.max_user_instances=1024"
    )
