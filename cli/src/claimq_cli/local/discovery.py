"""Lets the other commands and programs of this user find a local mode from any directory; `claimq.local_mode` finds it.

One symbolic link for each, to its state directory, in a directory that only this user can write. A link proves
nothing: whether local mode runs there, its lock says.
"""

from __future__ import annotations

import hashlib
import os

from claimq import local_mode
from claimq_cli.local.state_directory import StateDirectory


def announce(directory: StateDirectory) -> None:
    """Lets others find it. Does nothing where there is no safe place for that."""
    place = local_mode.place_of_links(make=True)
    if place is not None:
        link = place / _name(directory)
        link.unlink(missing_ok=True)
        link.symlink_to(directory.path)


def withdraw(directory: StateDirectory) -> None:
    """It no longer runs."""
    place = local_mode.place_of_links()
    if place is not None:
        (place / _name(directory)).unlink(missing_ok=True)
        try:
            place.rmdir()
        except OSError:
            return  # others run


def _name(directory: StateDirectory) -> str:
    return hashlib.sha256(os.fsencode(directory.path)).hexdigest()[:16]
