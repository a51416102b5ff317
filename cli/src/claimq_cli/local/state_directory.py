"""The directory of one local mode: who runs, where its sockets are, the server's data, the logs.

lock         held while `claimq up` runs here
state.json   what runs now (removed at the end): processes, queues, where the server is
valkey/      the embedded server's append-only file: the items
logs/        one file for each process
run/         sockets (removed at the end; elsewhere if this path is too long for a socket)
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

from claimq import local_mode
from claimq_cli.errors import LocalModeError

LONGEST_SOCKET_PATH = 107
ROOM_FOR_NAME = 40
_SHORTEST = "/tmp"  # noqa: S108 - mkdtemp() makes a directory of our own in it


@dataclass(slots=True)
class Running:
    """One process as written down: what it is to us, and who it is."""

    role: str
    name: str
    pid: int
    started: int


@dataclass(slots=True)
class RunState:
    """What state.json holds."""

    mark: str
    boot: str
    pid: int
    started: int
    sockets: str
    queues: dict[str, str] = field(default_factory=dict[str, str])
    """Queue name to the URL of its server."""
    processes: list[Running] = field(default_factory=list[Running])
    claim_names: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Queue name to the names under which its workers' sidecars claim."""


class StateDirectory:
    """Paths, lock and state file. Only one local mode may hold it at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.state_file = self.path / local_mode.STATE
        self.logs = self.path / "logs"
        self.valkey = self.path / "valkey"
        self._lock: int | None = None

    def hold(self) -> None:
        """Makes the directory and takes its lock, which the kernel frees with this process. LocalModeError if taken."""
        try:
            for place in (self.path, self.logs, self.valkey):
                place.mkdir(mode=0o700, parents=True, exist_ok=True)
            local_mode.check_trusted(self.path)
            handle = os.open(self.path / local_mode.LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except local_mode.NotTrusted as error:
            raise LocalModeError(f"{error}, or give another directory with --data") from error
        except OSError as error:
            raise LocalModeError(
                f"{self.path} cannot be used ({error.strerror}); give another directory with --data"
            ) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            raise LocalModeError(
                f"claimq up runs already on {self.path}; stop it first, or give another directory with --data"
            ) from error
        self._lock = handle

    def let_go(self) -> None:
        """Frees the lock."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def is_held(self) -> bool:
        """Whether a local mode runs here."""
        return local_mode.is_running(self.path)

    def make_socket_directory(self) -> Path:
        """A private directory whose path is short enough for sockets. LocalModeError if there is no place for one."""
        place = self.path / "run"
        if _has_room_for_sockets(place):
            place.mkdir(mode=0o700, exist_ok=True)
            return place
        for outer in (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), _SHORTEST):
            if outer and _has_room_for_sockets(Path(outer) / "claimq-run-12345678"):
                try:
                    return Path(tempfile.mkdtemp(prefix="claimq-run-", dir=outer))
                except OSError:
                    continue
        raise LocalModeError(f"{self.path} is too long a path for sockets; give a shorter one with --data")

    def write(self, state: RunState) -> None:
        """Replaces the state file in one step; it may hold a password, so nobody else may read it."""
        fresh = self.state_file.with_suffix(".new")
        fresh.touch(mode=0o600)
        fresh.write_text(json.dumps(asdict(state), indent=1))
        fresh.replace(self.state_file)

    def read(self) -> RunState | None:
        """What the state file says; None without one, or if it cannot be understood."""
        found = local_mode.read_state(self.path)
        try:
            return None if found is None else _state_of(found)
        except (TypeError, KeyError):
            return None

    def forget_run(self, state: RunState) -> None:
        """Removes the sockets of a run and the state file."""
        place = Path(state.sockets)
        is_own = place == self.path / "run" or place.name.startswith("claimq-run-")
        if is_own and place.is_dir() and not place.is_symlink() and place.stat().st_uid == os.getuid():
            shutil.rmtree(place, ignore_errors=True)
        self.state_file.unlink(missing_ok=True)


def _has_room_for_sockets(place: Path) -> bool:
    return len(os.fsencode(place)) + ROOM_FOR_NAME <= LONGEST_SOCKET_PATH


def _state_of(found: Mapping[str, Any]) -> RunState:
    known = {name: found[name] for name in RunState.__dataclass_fields__}
    known["processes"] = [Running(**cast("dict[str, Any]", one)) for one in found["processes"]]
    return RunState(**known)
