"""Files with odd names, and paths that cannot be read as files, for the demo."""

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path

READABLE = (
    b"new\nline.txt",
    b"caf\xe9 (not UTF-8).txt",
    b"-n",
    b" spaces  %20 .txt",
    b"back\\slash.txt",
    b"empty",
)


@dataclass(frozen=True)
class Unreadable:
    """A path that cannot be read, what it is, and the reason expected in *failed*."""

    path: bytes
    what: str
    reason: str


def make_readable(folder: Path) -> list[bytes]:
    """Creates files whose names break careless programs."""
    paths: list[bytes] = []
    for name in READABLE:
        path = folder / os.fsdecode(name)
        path.write_bytes(b"" if name == b"empty" else b"content of " + name)
        paths.append(os.fsencode(path))
    return paths


def make_unreadable(folder: Path) -> list[Unreadable]:
    """Creates paths below ``folder`` that cannot be read as a file. Root gets one less: permissions do not stop it."""
    (folder / "broken-link").symlink_to("nowhere")
    (folder / "directory").mkdir()
    (folder / "plain-file").write_text("in the way")
    (folder / "loop-a").symlink_to("loop-b")
    (folder / "loop-b").symlink_to("loop-a")
    os.mknod(folder / "socket", stat.S_IFSOCK | 0o600)  # its path may be too long to bind
    made = [
        _unreadable(folder / "broken-link", "a broken link", errno.ENOENT),
        _unreadable(folder / "directory", "a directory", errno.EISDIR),
        _unreadable(folder / "loop-a", "a loop of links", errno.ELOOP),
        _unreadable(folder / "plain-file" / "below", "a path through a file", errno.ENOTDIR),
        _unreadable(folder / ("long-name-" * 30), "a name that is too long", errno.ENAMETOOLONG),
        _unreadable(folder / "socket", "a socket", errno.ENXIO),
    ]
    secret = folder / "no-permission"
    secret.write_text("secret")
    secret.chmod(0)
    try:
        secret.open("rb").close()
    except PermissionError:
        made.append(_unreadable(secret, "a file without read permission", errno.EACCES))
    return made


def _unreadable(path: Path, what: str, number: int) -> Unreadable:
    return Unreadable(os.fsencode(path), what, os.strerror(number))
