"""A server that cannot be had is reported once, loudly, and fails the run in continuous integration."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from testkit.repository.tree import ROOT
from testkit.waiting import PATIENCE

# Only the plugins that pyproject.toml has options for: to import all others takes seconds of processor time.
PLUGINS = ("-p", "pytest_asyncio.plugin", "-p", "pytest_timeout", "-p", "xdist.plugin")
NEEDS_REDIS = """
def test_on_redis(redis7): pass
def test_on_both(server): pass
def test_on_none(): pass
"""


def run(place: Path, ci: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Runs three tests on a machine with neither redis-server nor apt."""
    (place / "test_three.py").write_text(NEEDS_REDIS)
    env = {**os.environ, "PATH": str(place), "CLAIMQ_CACHE": str(place / "cache"), "CI": ci}
    env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-c",
        str(ROOT / "pyproject.toml"),
        "-p",
        "no:cacheprovider",
        *PLUGINS,
        "-rs",
    ]
    return subprocess.run(
        [*command, f"--rootdir={ROOT}", *options, str(place)],
        cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip


@pytest.mark.parametrize("options", [(), ("-n", "2")])
def test_the_run_says_so_and_passes_where_people_read(tmp_path: Path, options: tuple[str, ...]) -> None:
    done = run(tmp_path, "", *options)
    loud = [line for line in done.stdout.splitlines() if "HAD NO SERVER TO RUN ON" in line]
    assert len(loud) == 1
    assert loud[0].startswith(
        "2 TESTS HAD NO SERVER TO RUN ON, so this run proves less: redis 7: apt-get is not on PATH"
    )
    assert "install redis-server 7 or later" in loud[0]
    assert "2 passed, 2 skipped" in done.stdout
    assert done.returncode == 0


@pytest.mark.parametrize("options", [(), ("-n", "2")])
def test_the_run_fails_in_continuous_integration(tmp_path: Path, options: tuple[str, ...]) -> None:
    done = run(tmp_path, "true", *options)
    assert "2 TESTS HAD NO SERVER TO RUN ON, so the run FAILS" in done.stdout
    assert done.returncode == 1
