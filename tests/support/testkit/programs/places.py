"""Directories for sockets: short names, and none left behind by a run that was killed."""

import os
import re
import shutil
import tempfile
from pathlib import Path

ROOT = Path("/tmp")  # a socket's path has at most 107 characters, and TMPDIR may be long
PREFIX = "claimq-test-"


def new_directory() -> Path:
    """An empty directory of this process; the caller removes it, or the next run does."""
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=ROOT))


def remove_left_behind() -> None:
    """Removes the directories of processes that are gone."""
    for place in ROOT.glob(f"{PREFIX}*"):
        owner = re.match(rf"{PREFIX}(\d+)-", place.name)
        if owner and not Path(f"/proc/{owner[1]}").exists():
            shutil.rmtree(place, ignore_errors=True)
