"""Certificates out of Secrets, as files for the TLS library: few and small, so that no tenant takes another's room."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from pathlib import Path

from claimq_operator.fault import Fault
from claimq_spec.quantity import format_size

LARGEST = {"ca.crt": 256 * 1024, "tls.crt": 64 * 1024, "tls.key": 64 * 1024}
"""Bytes of a file at most. Authorities may be many: the bundle of a Linux system has 220 KiB."""
NAMESPACE_BYTES = 1024 * 1024
"""Bytes of the files of all queues of one namespace at most; the same file of several queues is there once."""


class Rejected(Exception):
    """A certificate that was not stored; ``fault`` says why and what to do."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


class Certificates:
    """The files of one directory, named by their contents: another content is another file."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def paths(self, files: Mapping[str, bytes], others: Collection[str], namespace: str) -> dict[str, str]:
        """Stores what ``files`` has of LARGEST; name -> path. ``others``: paths that the namespace uses already.

        Raises Rejected, and has stored nothing then that :meth:`sweep` does not remove.
        """
        found = {name: self._directory / _name(name, files[name]) for name in LARGEST if name in files}
        for name, path in found.items():
            if len(files[name]) > LARGEST[name]:
                raise Rejected(_too_large(name, len(files[name])))
            del path
        new = sum(len(files[name]) for name, path in found.items() if str(path) not in others)
        if new + sum(_size(path) for path in others) > NAMESPACE_BYTES:
            raise Rejected(_too_many(namespace))
        for name, path in found.items():
            self._store(path, files[name])
        return {name: str(path) for name, path in found.items()}

    def sweep(self, used: Collection[str | None]) -> None:
        """Removes what is not used."""
        for path in self._directory.iterdir():
            if str(path) not in used:
                path.unlink(missing_ok=True)

    @staticmethod
    def _store(path: Path, content: bytes) -> None:
        if path.exists():
            return
        begun = path.with_suffix(".begun")  # a file that did not get whole must not be taken for one
        try:
            begun.touch(mode=0o600)
            begun.write_bytes(content)
            begun.replace(path)
        except OSError as error:
            begun.unlink(missing_ok=True)
            raise Rejected(_not_stored(error)) from error


def _name(name: str, content: bytes) -> str:
    return f"{hashlib.sha256(content).hexdigest()[:24]}-{name}"


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except FileNotFoundError:
        return 0


def _too_large(name: str, size: int) -> Fault:
    said = (
        f"the {name} that spec.redis.tls names has {size} bytes, and {format_size(LARGEST[name])} are allowed; keep "
        "only the certificates that are needed in the Secret"
    )
    return Fault("CertificateTooLarge", said, needs_person=True)


def _too_many(namespace: str) -> Fault:
    said = (
        f"the certificates of the queues in the namespace {namespace} are together larger than the "
        f"{format_size(NAMESPACE_BYTES)} that a namespace may have; let queues share Secrets, or make them smaller"
    )
    return Fault("CertificateTooLarge", said, needs_person=True)


def _not_stored(error: OSError) -> Fault:
    said = (
        f"the certificates that spec.redis.tls names cannot be stored in the operator's temporary directory "
        f"({error.strerror}); free it, or give the operator a larger one"
    )
    return Fault("CertificateNotStored", said, needs_person=True)
