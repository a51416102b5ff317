"""Finds running local modes (`claimq up`) for programs that were given no address of a server.

A state directory is trusted only if it and its files belong to this user and no other user may write to them: it names
the server to which a password may be sent. A lock in it shows that a local mode is running.
"""

from __future__ import annotations

import json
import os
import shlex
import tempfile
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from claimq.errors import NoServer

DIRECTORY_NAME = ".claimq"
LOCK, STATE = "lock", "state.json"
_LONGEST_STATE = 16 * 1024 * 1024


class NotTrusted(OSError):
    """Another user may have written the directory or a file in it; the message names it and the fix."""


def running_near() -> list[Path]:
    """The state directory of the local mode that runs here, or in the nearest directory above; empty without one."""
    return next(([directory] for directory in _here_and_above() if is_running(directory)), list[Path]())


def running_anywhere() -> list[Path]:
    """The state directories of all local modes of this user that run on this machine; forgets those that do not."""
    place = place_of_links()
    directories: list[Path] = []
    for link in sorted(place.iterdir()) if place is not None else []:
        try:
            directory = link.readlink()
        except OSError:  # not a link, or another command has just removed it
            continue
        if is_running(directory):
            directories.append(directory)
        else:
            link.unlink(missing_ok=True)
    return directories


def running_for_program() -> list[Path]:
    """The state directories of the local modes for a program that names no server: the nearest one, else all of this
    user. Raises NoServer if the nearest one has ended and others run: their queues may have the same names."""
    nearest = next(filter(_is_trusted, _here_and_above()), None)
    if nearest is not None and is_running(nearest):
        return [nearest]
    others = running()
    if nearest is None or not others:
        return others
    raise NoServer(
        f"the `claimq up` of {nearest} is not running; start it, or use that of {others[0]}: {_use_server(others[0])}"
    )


def running(directory: Path | None = None) -> list[Path]:
    """The state directories of the running local modes, the nearest first; with ``directory`` at most this one."""
    if directory is not None:
        return [directory] if is_running(directory) else []
    return list(dict.fromkeys([*running_near(), *running_anywhere()]))


def is_running(directory: Path) -> bool:
    """Whether a local mode runs on this state directory. False for one that is not to be trusted."""
    try:
        import fcntl

        with _opened(directory, LOCK) as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (OSError, ImportError):
        return False
    return False


def read_state(directory: Path) -> Mapping[str, Any] | None:
    """The state file of a local mode; None without one, or if it cannot be read or trusted."""
    try:
        with _opened(directory, STATE) as handle, os.fdopen(os.dup(handle), "rb") as file:
            state = json.loads(file.read(_LONGEST_STATE))
    except (OSError, ValueError, RecursionError):
        return None
    return cast("Mapping[str, Any]", state) if isinstance(state, dict) else None


def queues_of(directory: Path) -> dict[str, str]:
    """The queues of the local mode there, and the URL of the server of each. Empty while it is only starting."""
    queues = (read_state(directory) or {}).get("queues")
    if not isinstance(queues, dict):
        return {}
    return {name: url for name, url in cast("dict[object, object]", queues).items()
            if isinstance(name, str) and isinstance(url, str)}  # fmt: skip


def lacks_queue(directory: Path, queues: Iterable[str], queue: str) -> str:
    """The error for a queue that is not one of those of the local mode there."""
    return (
        f"the `claimq up` of {directory} has no queue {queue}, only {', '.join(queues)}; start `claimq up` "
        f"with a manifest that has it, or use this server without a manifest: {_use_server(directory)}"
    )


def _use_server(directory: Path) -> str:
    return f"export CLAIMQ_REDIS_URL=$(claimq url --data {shlex.quote(str(directory))})"


def check_trusted(directory: Path) -> None:
    """Raises NotTrusted for a directory that another user owns or may write, OSError for one that is not there."""
    with _directory(directory):
        return


def _here_and_above() -> list[Path]:
    """Where a state directory may be: in the working directory and in those above it, the nearest first."""
    here = Path.cwd()
    return [place / DIRECTORY_NAME for place in (here, *here.parents)]


def _is_trusted(directory: Path) -> bool:
    try:
        check_trusted(directory)
    except OSError:
        return False
    return True


def place_of_links(*, make: bool = False) -> Path | None:
    """The directory in which each local mode of this user has a link to its state directory. None where no safe one is
    there.
    """
    if not hasattr(os, "getuid"):
        return None
    outer = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())
    place = outer / f"claimq-{os.getuid()}"
    try:
        if make:
            place.mkdir(mode=0o700, exist_ok=True)
        if place.is_symlink():
            return None
        check_trusted(place)
    except OSError:
        return None
    return place


@contextmanager
def _directory(path: Path) -> Generator[int]:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _check(path, os.lstat(path))
        _check(path, os.fstat(handle))
        yield handle
    finally:
        os.close(handle)


@contextmanager
def _opened(directory: Path, name: str) -> Generator[int]:
    """Opens a file in the directory. The checks are made on the open file, so that it cannot be exchanged."""
    with _directory(directory) as place:
        handle = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=place)
        try:
            _check(directory / name, os.fstat(handle))
            yield handle
        finally:
            os.close(handle)


def _check(path: Path, status: os.stat_result) -> None:
    if status.st_uid != os.getuid():
        raise NotTrusted(f"{path} belongs to another user (id {status.st_uid}); use a directory of your own")
    is_link = status.st_mode & 0o170000 == 0o120000
    if not is_link and status.st_mode & 0o022:
        raise NotTrusted(f"others may write {path}; forbid it: chmod go-w {path}")
