"""The state directory of local mode.

lock         locked while `claimq up` runs here
state.json   present while it runs: processes, queues, URL of the server
valkey/      append-only file of the embedded server, with the items
logs/        one file per process
run/         sockets, present while it runs (in another directory if this path is too long for a socket)
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

from claimq.address import local_mode
from claimq_admin.errors import LocalModeError

LONGEST_SOCKET_PATH = 107
ROOM_FOR_NAME = 40
_SHORTEST = "/tmp"  # noqa: S108 - mkdtemp() makes a directory of our own in it


@dataclass(slots=True)
class Running:
    """A process as recorded: its role, name, id and start time."""

    role: str
    name: str
    pid: int
    started: int


@dataclass(slots=True)
class RunState:
    """The content of state.json."""

    mark: str
    boot: str
    pid: int
    started: int
    sockets: str
    queues: dict[str, str] = field(default_factory=dict[str, str])
    """Queue name to the URL of its server."""
    processes: list[Running] = field(default_factory=list[Running])
    claim_names: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Queue name to the names under which its sidecars claim."""
    decisions: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    """Queue name to its last scaling decision, like ``status.scaling`` of a ReliableQueue."""
    conditions: dict[str, list[dict[str, Any]]] = field(default_factory=dict[str, list[dict[str, Any]]])
    """Queue name to its conditions, like ``status.conditions`` of a ReliableQueue."""


class StateDirectory:
    """Paths, lock and state file. One local mode can use it at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.state_file = self.path / local_mode.STATE
        self.logs = self.path / "logs"
        self.valkey = self.path / "valkey"
        self._lock: int | None = None

    def hold(self) -> None:
        """Creates and locks the directory; the lock ends with this process. LocalModeError if it is locked."""
        try:
            for place in (self.path, self.logs, self.valkey):
                place.mkdir(mode=0o700, parents=True, exist_ok=True)
            local_mode.check_trusted(self.path)
            handle = os.open(self.path / local_mode.LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except local_mode.NotTrusted as error:
            raise LocalModeError(f"{error}, or give another directory with --data") from error
        except OSError as error:
            raise LocalModeError(
                f"cannot use {self.path} ({error.strerror}); give another directory with --data"
            ) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            raise LocalModeError(self._already_running()) from error
        self._lock = handle

    def _already_running(self) -> str:
        state = self.read()
        stop = f"stop it with Ctrl-C or `kill {state.pid}`" if state is not None else "stop it"
        return f"claimq up is already running in {self.path}; {stop}, or give another directory with --data"

    def release(self) -> None:
        """Releases the lock."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def make_socket_directory(self) -> Path:
        """Creates a private directory with a path short enough for sockets. LocalModeError if there is none."""
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
        raise LocalModeError(f"the path {self.path} is too long for sockets; give a shorter one with --data")

    def write(self, state: RunState) -> None:
        """Replaces the state file atomically. It may contain a password, so only its owner can read it."""
        fresh = self.state_file.with_suffix(".new")
        fresh.touch(mode=0o600)
        fresh.write_text(json.dumps(asdict(state), indent=1))
        fresh.replace(self.state_file)

    def keep_token(self, token: str) -> Path:
        """Writes the token of the web page to a file that only its owner can read, and returns the file."""
        file, fresh = self.path / "web-token", self.path / "web-token.new"
        fresh.unlink(missing_ok=True)
        fresh.touch(mode=0o600)
        fresh.write_text(token + "\n")
        return fresh.replace(file)

    def read(self) -> RunState | None:
        """The content of the state file; None if it is absent or invalid."""
        document = local_mode.read_state(self.path)
        try:
            return None if document is None else _state_of(document)
        except (TypeError, KeyError):
            return None

    def forget_run(self, state: RunState) -> None:
        """Removes the sockets and the state file of a run."""
        place = Path(state.sockets)
        is_own = place == self.path / "run" or place.name.startswith("claimq-run-")
        if is_own and place.is_dir() and not place.is_symlink() and place.stat().st_uid == os.getuid():
            shutil.rmtree(place, ignore_errors=True)
        self.state_file.unlink(missing_ok=True)


def _has_room_for_sockets(place: Path) -> bool:
    return len(os.fsencode(place)) + ROOM_FOR_NAME <= LONGEST_SOCKET_PATH


def _state_of(document: Mapping[str, Any]) -> RunState:
    fields = {name: document[name] for name in RunState.__dataclass_fields__ if name in document}
    fields["processes"] = [Running(**cast("dict[str, Any]", process)) for process in document["processes"]]
    return RunState(**fields)
