"""Only one at a time brings up, takes down or tests a cluster of one name."""

import fcntl
import os
import shlex
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from clusterkit.errors import HarnessError


@contextmanager
def locked(file: Path, purpose: str, *, wait: float = 0) -> Generator[None]:
    """Hold the lock `file`; the kernel gives it back when this process ends, however it ends.

    When another process holds it: wait at most `wait` seconds, then raise HarnessError that names the process.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _take(handle, file, wait)
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"process {os.getpid()} ({shlex.join(sys.argv)[:200]}), {purpose}\n".encode(), 0)
        try:
            yield
        finally:
            os.ftruncate(handle, 0)
    finally:
        os.close(handle)


def _take(handle: int, file: Path, wait: float) -> None:
    deadline = time.monotonic() + wait
    announced = False
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(handle, 1000, 0).decode(errors="replace").strip() or "another process"
            if time.monotonic() >= deadline:
                raise HarnessError(
                    f"the cluster {file.stem!r} is in use by {holder}. Wait for it (--wait SECONDS, or for the tests "
                    "CLAIMQ_CLUSTER_WAIT=SECONDS), end it, or take another name (--name NAME, CLAIMQ_CLUSTER=NAME)."
                ) from None
            if not announced:
                print(
                    f"waiting up to {wait:g} s for the cluster {file.stem!r}: {holder}",
                    file=sys.stderr,
                    flush=True,
                )  # to the person who waits
                announced = True
            time.sleep(0.5)
        else:
            return
