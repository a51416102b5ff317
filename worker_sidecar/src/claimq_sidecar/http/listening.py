"""The sockets: the app's Unix socket with its permissions, and the health port."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import socket
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

BACKLOG = 2048


class CannotListen(Exception):
    """A socket cannot be opened. The message contains the fix."""


def open_app_socket(path: Path, mode: int) -> socket.socket:
    """Listens on ``path`` with permissions ``mode``; creates its directory (0770) if it does not exist.

    A socket on which no process answers is left over from a killed sidecar and is replaced; one that answers is
    another's and stays. Raises :class:`CannotListen`.
    """
    try:
        _make_directory(path.parent)
        with _directory_locked(path.parent):
            _remove_stale(path)
            return _listen(path, mode)
    except OSError as error:
        raise CannotListen(
            f"cannot listen on {path}: {error.strerror or error}; mount a writable directory or set CLAIMQ_SOCKET"
        ) from error


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
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o777 & ~mode)
    try:
        made.bind(str(path))
    except OSError:
        made.close()
        raise
    finally:
        os.umask(before)
    made.listen(BACKLOG)
    made.setblocking(False)
    return made


def identity(path: Path) -> tuple[int, int] | None:
    """Device and inode of the file at the path; None if there is no file."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def remove_app_socket(path: Path, made: tuple[int, int] | None) -> None:
    """Removes the socket's file unless another process has replaced it."""
    try:
        with _directory_locked(path.parent):
            if made is not None and identity(path) == made:
                path.unlink()
    except OSError:
        return  # the directory was removed, and the file with it


def open_health_port(host: str, port: int) -> socket.socket:
    """Listens on the health port. Raises :class:`CannotListen`."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        made = socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        why = error.strerror or error
        raise CannotListen(
            f"cannot listen on {host} port {port}: {why}; set CLAIMQ_HEALTH_HOST and CLAIMQ_HEALTH_PORT"
        ) from error
    made.setblocking(False)
    return made


def allow_many_connections() -> None:
    """Raises the soft limit on open files to what the hard one allows, at most 65,536."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65536 if hard == resource.RLIM_INFINITY else min(hard, 65536)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
