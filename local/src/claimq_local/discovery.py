"""Publishes a running local mode, so that commands and programs of this user find it from any directory.

Each local mode has a symbolic link to its state directory, in a directory that only this user can write. The lock of
the state directory shows whether local mode is running; a link does not. `claimq.address.local_mode` reads the links.
"""

from __future__ import annotations

import hashlib
import os

from claimq.address import local_mode
from claimq_local.state_directory import StateDirectory


def announce(directory: StateDirectory) -> None:
    """Publishes the local mode. Does nothing if there is no safe directory for links."""
    place = local_mode.place_of_links(make=True)
    if place is not None:
        link = place / _name(directory)
        link.unlink(missing_ok=True)
        link.symlink_to(directory.path)


def withdraw(directory: StateDirectory) -> None:
    """Removes the link."""
    place = local_mode.place_of_links()
    if place is not None:
        (place / _name(directory)).unlink(missing_ok=True)
        try:
            place.rmdir()
        except OSError:
            return  # other local modes are running


def _name(directory: StateDirectory) -> str:
    return hashlib.sha256(os.fsencode(directory.path)).hexdigest()[:16]
