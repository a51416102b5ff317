"""Identifies and signals processes by means of /proc.

A process id alone does not identify a process, since ids are reused. The id and the start time do, and so does the mark
that all children of a `claimq up` inherit in their environment.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

MARK = "LOCAL_CLAIMQ_RUN"
"""Environment variable of all processes that local mode starts, inherited by their children."""

_PROC = Path("/proc")
_LONGEST_WAIT = 10.0


@dataclass(frozen=True, slots=True)
class Identity:
    """A process: its id and its start time in clock ticks since boot."""

    pid: int
    started: int


def boot_id() -> str:
    """Id of this boot; process ids and start times are only valid within one boot."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def identify(pid: int) -> Identity | None:
    """The process with this id; None if there is none or it is a zombie."""
    fields = _stat(pid)
    return None if fields is None or fields[0] in ("Z", "X") else Identity(pid, int(fields[19]))


def group_of(pid: int) -> int | None:
    """The process group of a process."""
    fields = _stat(pid)
    return None if fields is None else int(fields[2])


def has_variable(pid: int, variable: str) -> bool:
    """Whether the environment that the process started with has this variable, given as ``NAME=VALUE``."""
    return variable.encode() in (_environment(pid) or [])


def members_of(group: int, variable: str) -> list[Identity]:
    """The processes of a group that started with this variable, given as ``NAME=VALUE``: it shows that the id of the
    group was not reused. Those without any environment count too: one has cleared it, or is in the middle of an exec.
    """
    members: list[Identity] = []
    for pid in _process_ids():
        if group_of(pid) == group and (environment := _environment(pid)) is not None:
            identity = identify(pid)
            if identity is not None and (not environment or variable.encode() in environment):
                members.append(identity)
    return members


def marked(mark: str) -> Iterator[Identity]:
    """All processes with the mark, except this one."""
    return with_variable(f"{MARK}={mark}")


def with_variable(variable: str) -> Iterator[Identity]:
    """All processes that started with this variable, given as ``NAME=VALUE``, except this one."""
    for pid in _process_ids():
        if pid != os.getpid() and has_variable(pid, variable):
            identity = identify(pid)
            if identity is not None:
                yield identity


def send(target: Identity, number: signal.Signals) -> bool:
    """Sends a signal to this process, never to one that reuses its id; False if it has ended."""
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


def end_all(list_processes: Callable[[], Iterable[Identity]]) -> list[Identity]:
    """Kills the processes that ``list_processes`` finds until it finds none; returns those that remain after 10 s."""
    timeout_at = time.monotonic() + _LONGEST_WAIT
    while alive := list(list_processes()):
        if time.monotonic() > timeout_at:
            return alive
        for identity in alive:
            send(identity, signal.SIGKILL)
        time.sleep(0.01)
    return []


def _process_ids() -> Iterator[int]:
    return (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())


def _environment(pid: int) -> list[bytes] | None:
    """The variables as ``NAME=VALUE``; None if there is no such process, or it is another user's."""
    try:
        text = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return None
    return text.split(b"\0") if text else []


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat after the name (which may hold anything): state, parent, group, session ..."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()
