"""Stores certificates from Secrets as files for the TLS library, within limits for each namespace."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from claimq_process.size import format_size

MAX_BYTES = {"ca.crt": 256 * 1024, "tls.crt": 64 * 1024, "tls.key": 64 * 1024}
"""The maximum size of each file in bytes. The CA bundle of a Linux system has 220 KiB."""
NAMESPACE_BYTES = 1024 * 1024
"""The maximum total size for all queues of one namespace; a file that several queues share counts once."""
TOTAL_BYTES = 8 * 1024 * 1024
"""When the files of all namespaces reach this size, a namespace may only store up to SMALL_NAMESPACE_BYTES in all. The
volume in a pod has 16 MiB: the other half is for namespaces with few and small certificates.
"""
SMALL_NAMESPACE_BYTES = 64 * 1024
"""The total size that a namespace may store in any case, until the volume is full."""
_DIRECTORY = "claimq-certificates-"


class CertificateRejected(Exception):
    """A certificate was not stored. The message has the cause and the fix, ``reason`` is for programs:
    ``CertificateTooLarge`` or ``CertificateNotStored``.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Certificates:
    """Files in one directory, named by a hash of their contents."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def paths(
        self,
        files: Mapping[str, bytes],
        other_paths: Collection[str],
        namespace: str,
        own_paths: Collection[str] = (),
    ) -> dict[str, str]:
        """Stores the entries of ``files`` whose names are in MAX_BYTES, and returns their paths by name.

        ``other_paths``: those that other queues of the namespace use; ``own_paths``: those that this queue has
        used so far. Raises CertificateRejected; :meth:`sweep` then removes what was stored.
        """
        paths = {name: self._directory / _file_name(name, files[name]) for name in MAX_BYTES if name in files}
        for name in paths:
            if len(files[name]) > MAX_BYTES[name]:
                raise _too_large(name, len(files[name]))
        new = sum(len(files[name]) for name, path in paths.items() if str(path) not in other_paths)
        of_namespace = new + sum(_size(path) for path in other_paths)
        if of_namespace > NAMESPACE_BYTES:
            raise _too_many(namespace)
        added = sum(len(files[name]) for name, path in paths.items() if not path.exists())
        before = sum(_size(path) for path in {*other_paths, *own_paths})
        # Not where renewed certificates replace others of the queue.
        grows = added and of_namespace > max(before, SMALL_NAMESPACE_BYTES)
        if grows and added + self._stored_bytes() > TOTAL_BYTES:
            raise _no_room(namespace)
        for name, path in paths.items():
            self._store(path, files[name])
        return {name: str(path) for name, path in paths.items()}

    def sweep(self, used: Collection[str | None]) -> None:
        """Deletes all files that are not in ``used``."""
        for path in self._directory.iterdir():
            if str(path) not in used:
                path.unlink(missing_ok=True)

    def _stored_bytes(self) -> int:
        return sum(_size(str(path)) for path in self._directory.glob("*"))

    @staticmethod
    def _store(path: Path, content: bytes) -> None:
        if path.exists():
            return
        partial = path.with_suffix(".partial")  # a partly written file must never have the final name
        try:
            partial.touch(mode=0o600)
            partial.write_bytes(content)
            partial.replace(path)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise _not_stored(error) from error


def _file_name(name: str, content: bytes) -> str:
    return f"{hashlib.sha256(content).hexdigest()[:24]}-{name}"


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except FileNotFoundError:
        return 0


def _too_large(name: str, size: int) -> CertificateRejected:
    message = (
        f"the {name} in spec.redis.tls has {size} bytes, more than the allowed {format_size(MAX_BYTES[name])}; keep "
        "only the certificates that are needed in the Secret"
    )
    return CertificateRejected("CertificateTooLarge", message)


def _too_many(namespace: str) -> CertificateRejected:
    message = (
        f"the certificates of all queues in the namespace {namespace} exceed the allowed "
        f"{format_size(NAMESPACE_BYTES)}; let queues share Secrets, or make them smaller"
    )
    return CertificateRejected("CertificateTooLarge", message)


def _no_room(namespace: str) -> CertificateRejected:
    message = (
        f"the certificates of all namespaces together reach {format_size(TOTAL_BYTES)}, so those of the namespace "
        f"{namespace} may have at most {format_size(SMALL_NAMESPACE_BYTES)}; keep only the certificates that are "
        "needed in the Secrets"
    )
    return CertificateRejected("CertificateTooLarge", message)


def _not_stored(error: OSError) -> CertificateRejected:
    message = (
        f"the certificates in spec.redis.tls cannot be stored in the temporary directory ({error.strerror}); "
        "free space there, or make it larger"
    )
    return CertificateRejected("CertificateNotStored", message)


@contextmanager
def certificate_directory() -> Generator[Path]:
    """A temporary directory for certificates, which only this user can read. It is deleted at the end, and if the
    process is killed, by the next one: a volume of a pod outlives its containers.
    """
    while True:
        with tempfile.TemporaryDirectory(prefix=_DIRECTORY) as name:
            lock = _lock(Path(name))
            if lock is None:
                continue  # another process has begun to delete it
            try:
                _delete_abandoned()
                yield Path(name)
            finally:
                os.close(lock)
            return


def _delete_abandoned() -> None:
    """Deletes the directories of processes that have ended: the kernel has released their locks."""
    for path in Path(tempfile.gettempdir()).glob(f"{_DIRECTORY}*"):
        lock = _lock(path)
        if lock is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(lock)


def _lock(directory: Path) -> int | None:
    """Locks a directory of this user until the descriptor is closed; None if a process has locked or deleted it."""
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if directory.exists() and os.fstat(descriptor).st_uid == os.geteuid():
            return descriptor
    except BlockingIOError:
        pass
    os.close(descriptor)
    return None
