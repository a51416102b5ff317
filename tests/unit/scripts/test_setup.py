"""What `make setup` says on a machine that lacks something: one line, and what to do."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from testkit.repository.tree import ROOT
from testkit.waiting import PATIENCE

OLD = '#!/bin/sh\ncase "$1" in --version) echo Python 3.9.18;; *) exit 1;; esac\n'
WITHOUT_VENV = '#!/bin/sh\ncase "$*" in *ensurepip*) exit 1;; esac\nexec {python} "$@"\n'


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """The only folder on PATH; `dirname` is all that there is."""
    (tmp_path / "dirname").symlink_to("/usr/bin/dirname")
    return tmp_path


def install(machine: Path, name: str, script: str) -> None:
    (machine / name).write_text(script.format(python=sys.executable))
    (machine / name).chmod(0o755)


def said_by_setup(machine: Path, python: str = "") -> str:
    env = {**os.environ, "PATH": str(machine), "PYTHON": python}
    command = ["/bin/sh", str(ROOT / "scripts/setup"), "no-such-level"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode != 0
    assert done.stdout == ""
    return done.stderr


def test_without_any_python_it_says_so(machine: Path) -> None:
    assert said_by_setup(machine).startswith("setup: no Python 3.11 or later on PATH (python3 is missing)")


def test_an_old_python_alone_will_not_do(machine: Path) -> None:
    install(machine, "python3", OLD)
    said = said_by_setup(machine)
    assert said == (
        "setup: no Python 3.11 or later on PATH (python3 is Python 3.9.18): install one,"
        " or run make with PYTHON=/path/to/python.\n"
    )


def test_a_python_without_venv_names_the_package_to_install(machine: Path) -> None:
    install(machine, "python3", WITHOUT_VENV)
    said = said_by_setup(machine)
    assert said.count("\n") == 1
    assert "apt-get install python3-venv" in said


def test_a_newer_python_under_its_own_name_is_found_behind_an_old_one(machine: Path) -> None:
    install(machine, "python3", OLD)
    install(machine, "python3.12", '#!/bin/sh\nexec {python} "$@"\n')
    assert said_by_setup(machine) == "usage: setup_environment.py runtime|dev\n"


def test_a_python_that_was_asked_for_and_is_not_there_is_named(machine: Path) -> None:
    install(machine, "python3", '#!/bin/sh\nexec {python} "$@"\n')
    assert said_by_setup(machine, python="/no/python").startswith(
        "setup: PYTHON=/no/python is not a Python 3.11"
    )
