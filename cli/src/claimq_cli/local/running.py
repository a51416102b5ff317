"""Where local modes run on this machine, so that other commands of the same user find them from any directory.

One symbolic link for each, to its state directory, in a directory that only this user can write. A link proves
nothing: whether local mode runs there, its lock says.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from claimq_cli.local.state_directory import StateDirectory


def running_directories() -> list[StateDirectory]:
    """The state directories where local mode runs now; forgets those where it does not."""
    place = _links()
    found: list[StateDirectory] = []
    for link in sorted(place.iterdir()) if place is not None else []:
        if not link.is_symlink():
            continue
        directory = StateDirectory(link.readlink())
        if directory.is_held():
            found.append(directory)
        else:
            link.unlink(missing_ok=True)
    return found


def announce(directory: StateDirectory) -> None:
    """Lets other commands find it. Does nothing where there is no safe place for that."""
    place = _links(make=True)
    if place is not None:
        link = place / _name(directory)
        link.unlink(missing_ok=True)
        link.symlink_to(directory.path)


def withdraw(directory: StateDirectory) -> None:
    """It no longer runs."""
    place = _links()
    if place is not None:
        (place / _name(directory)).unlink(missing_ok=True)
        try:
            place.rmdir()
        except OSError:
            return  # others run


def _name(directory: StateDirectory) -> str:
    return hashlib.sha256(os.fsencode(directory.path)).hexdigest()[:16]


def _links(*, make: bool = False) -> Path | None:
    """The directory of links if it is there and nobody else can write it."""
    outer = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())
    place = outer / f"claimq-{os.getuid()}"
    try:
        if make:
            place.mkdir(mode=0o700, exist_ok=True)
        status = place.lstat()
    except OSError:
        return None
    is_private = place.is_dir() and not place.is_symlink() and status.st_uid == os.getuid()
    return place if is_private and status.st_mode & 0o022 == 0 else None
