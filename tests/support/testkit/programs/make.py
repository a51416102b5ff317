"""What a target of the Makefile runs, for tests that do as its user does, without making the environment again."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

from testkit.repository.tree import ROOT


def command_of(target: str, *variables: str) -> list[str]:
    """The last command of a target, word by word, with this Python's programs; to be run in ROOT."""
    words = ["make", "--dry-run", "--no-print-directory", target, f"BIN={Path(sys.executable).parent}"]
    # A make that runs the tests hands on its own flags and variables.
    environment = {name: value for name, value in os.environ.items() if name not in _OF_MAKE}
    done = subprocess.run(
        [*words, *variables], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return shlex.split(done.stdout.splitlines()[-1])


_OF_MAKE = {"MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL", "JSON", "QUICK"}
