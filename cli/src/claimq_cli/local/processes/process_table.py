"""Processes as the kernel tells of them: who one is beyond its number, and which carry our mark.

A process id alone proves nothing, since numbers are given out again. Proof is the id together with the start time,
or the mark that every child of one run of `claimq up` inherits in its environment.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

MARK = "LOCAL_CLAIMQ_RUN"
"""Environment variable of every process that local mode starts, and of those that they start."""

_PROC = Path("/proc")
_LONGEST_WAIT = 10.0


@dataclass(frozen=True, slots=True)
class Identity:
    """A process: its id and when it was started, in clock ticks since boot."""

    pid: int
    started: int


def boot_id() -> str:
    """Names this boot of the machine; process ids and start times mean nothing beyond it."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def identify(pid: int) -> Identity | None:
    """The process that has this id now; None if there is none, or if it has ended and is only not yet waited for."""
    fields = _stat(pid)
    return None if fields is None or fields[0] in ("Z", "X") else Identity(pid, int(fields[19]))


def group_of(pid: int) -> int | None:
    """Its process group."""
    fields = _stat(pid)
    return None if fields is None else int(fields[2])


def carries_mark(pid: int, mark: str) -> bool:
    """Whether the process was started by the run of that mark, or by one of its children."""
    try:
        environment = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return False
    return f"{MARK}={mark}".encode() in environment.split(b"\0")


def marked(mark: str) -> Iterator[Identity]:
    """All processes that carry the mark, except this one."""
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid() and carries_mark(int(entry.name), mark):
            found = identify(int(entry.name))
            if found is not None:
                yield found


def send(target: Identity, number: signal.Signals) -> bool:
    """Sends a signal to this process and to no other that may have got its id; False if it is gone."""
    try:
        handle = os.pidfd_open(target.pid)
    except ProcessLookupError:
        return False
    try:
        if identify(target.pid) != target:
            return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def end_all(left: Callable[[], Iterable[Identity]]) -> list[Identity]:
    """SIGKILL to whatever ``left`` finds, until it finds nothing; those that are still there after some seconds."""
    deadline = time.monotonic() + _LONGEST_WAIT
    while found := list(left()):
        if time.monotonic() > deadline:
            return found
        for one in found:
            send(one, signal.SIGKILL)
        time.sleep(0.01)
    return []


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat after the name (which may hold anything): state, parent, group, session ..."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()
