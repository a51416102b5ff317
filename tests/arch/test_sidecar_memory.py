"""An idle sidecar has little memory, since each pod has one: it loads what it runs, and not what comes with it."""

import subprocess
import sys

import pytest

STARTED = """
import os, sys
from claimq_sidecar.__main__ import main
os.environ.clear()
code = main()  # it ends with the missing settings, when everything is loaded
print(code, *sys.modules)
"""


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    """The modules of a sidecar."""
    program = [sys.executable, "-I", "-c", STARTED]
    code, *modules = subprocess.run(program, capture_output=True, text=True, check=True).stdout.split()
    assert code == "2"
    assert {"uvicorn.server", "claimq_sidecar.app"} <= set(modules)
    return set(modules)


@pytest.mark.parametrize("name", ["click", "multiprocessing", "claimq_control", "claimq_kubernetes"])
def test_a_sidecar_does_not_load(name: str, loaded: set[str]) -> None:
    assert name not in loaded
