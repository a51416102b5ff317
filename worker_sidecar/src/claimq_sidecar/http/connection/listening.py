"""The sockets: the app's Unix socket with its permissions, and the health port."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import socket
import stat
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from claimq.address import variables
from claimq_process.names import SOCKET_MODE

BACKLOG = 2048


class CannotListen(Exception):
    """A socket cannot be opened. The message contains the fix."""


@dataclass(frozen=True)
class AppSocket:
    """The listening socket of the app, and which file it is: device and inode."""

    listening: socket.socket
    path: Path
    file: tuple[int, int] | None

    def close(self) -> None:
        """Stops listening, and removes the file unless another process has replaced it."""
        self.listening.close()
        try:
            with _directory_locked(self.path.parent):
                if self.file is not None and _identity(self.path) == self.file:
                    self.path.unlink()
        except OSError:
            return  # the directory was removed, and the file with it


def open_app_socket(path: Path, mode: int) -> AppSocket:
    """Listens on ``path`` with permissions ``mode``; creates its directory (0770) if it does not exist.

    A socket on which no process answers is left over from a killed sidecar and is replaced; one that answers is
    another's and stays. Raises :class:`CannotListen`.
    """
    try:
        _make_directory(path.parent)
        with _directory_locked(path.parent):
            _remove_stale(path)
            return AppSocket(_listen(path, mode), path, _identity(path))
    except OSError as error:
        raise CannotListen(
            f"cannot listen on {path}: {error.strerror or error}; mount a writable directory or set CLAIMQ_SOCKET"
        ) from error


def open_early(environ: Mapping[str, str]) -> AppSocket | None:
    """The app's socket before the rest of the sidecar is imported: an app that starts at the same time can connect at
    once, and is answered when the sidecar serves.

    None without CLAIMQ_SOCKET, or if it cannot be opened: SidecarSettings or :func:`open_app_socket` says why.
    """
    path = Path(environ.get(variables.SOCKET) or "")
    try:
        mode = int(environ.get(variables.SOCKET_MODE) or f"{SOCKET_MODE:o}", 8) & 0o777
        return open_app_socket(path, mode) if path.is_absolute() else None
    except (CannotListen, ValueError):
        return None


def _make_directory(directory: Path) -> None:
    if not directory.is_dir():
        directory.mkdir(parents=True)
        directory.chmod(0o770)


@contextmanager
def _directory_locked(directory: Path) -> Generator[None]:
    """Locks the directory, so that no sidecar takes the socket that another one has just created for a stale one."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _remove_stale(path: Path) -> None:
    try:
        kind = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(kind):
        raise CannotListen(
            f"{path} is there and is no socket; remove it or set CLAIMQ_SOCKET to another path"
        )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.ETIMEDOUT):
                raise
    raise CannotListen(f"another process serves {path}; end it or set CLAIMQ_SOCKET to another path")


def _listen(path: Path, mode: int) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o777 & ~mode)
    try:
        listener.bind(str(path))
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(before)
    listener.listen(BACKLOG)
    listener.setblocking(False)
    return listener


def _identity(path: Path) -> tuple[int, int] | None:
    """Device and inode of the file at the path; None if there is no file."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def open_health_port(host: str, port: int) -> socket.socket:
    """Listens on the health port. Raises :class:`CannotListen`."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        why = error.strerror or error
        raise CannotListen(
            f"cannot listen on {host} port {port}: {why}; set CLAIMQ_HEALTH_HOST and CLAIMQ_HEALTH_PORT"
        ) from error
    listener.setblocking(False)
    return listener


def allow_many_connections() -> None:
    """Raises the soft limit on open files to what the hard one allows, at most 65,536."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = 65536 if hard == resource.RLIM_INFINITY else min(hard, 65536)
    if soft != resource.RLIM_INFINITY and soft < files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
