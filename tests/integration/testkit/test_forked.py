"""Programs that are forked from a template: processes like any others."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from testkit.programs.forked import ForkedProcess
from testkit.servers.server import Server
from testkit.waiting import eventually_sync

SETTINGS = {"CLAIMQ_QUEUE": "q", "CLAIMQ_WORKER": "w", "CLAIMQ_HEALTH_PORT": "0"}
PARENT = """
import sys, time
from pathlib import Path
from testkit.programs.forked import ForkedProcess
Path(sys.argv[1], "pid").write_text(str(ForkedProcess("claimq_sidecar", log=Path(sys.argv[1], "log"), env={}).pid))
time.sleep(600)
"""


@pytest.fixture
def settings(valkey: Server, tmp_path: Path) -> dict[str, str]:
    return {**SETTINGS, "CLAIMQ_REDIS_URL": valkey.url, "CLAIMQ_SOCKET": str(tmp_path / "s")}


def test_a_forked_program_has_its_own_settings_log_and_exit_code(tmp_path: Path) -> None:
    process = ForkedProcess("claimq_sidecar", log=tmp_path / "log", env={"CLAIMQ_HEALTH_PORT": "x"})
    assert process.wait() == 2
    assert "CLAIMQ_HEALTH_PORT" in (tmp_path / "log").read_text()


def test_the_log_of_a_forked_program_is_there_before_it_has_begun(
    settings: dict[str, str], tmp_path: Path
) -> None:
    for number in range(20):
        log = tmp_path / f"log{number}"
        process = ForkedProcess("claimq_sidecar", log=log, env=settings)
        assert log.exists()
        process.kill9()


def test_a_forked_program_runs_until_it_is_killed(settings: dict[str, str], tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = ForkedProcess("claimq_sidecar", log=log, env=settings)
    eventually_sync(lambda: log.exists() and "event=serving" in log.read_text())
    with pytest.raises(TimeoutError):
        process.wait(0.1)
    assert process.is_running
    assert process.kill9() == -signal.SIGKILL
    assert not Path(f"/proc/{process.pid}").exists()


def test_a_forked_program_dies_with_the_tests_also_by_sigkill(
    settings: dict[str, str], tmp_path: Path
) -> None:
    support = str(Path(__file__).parents[2] / "support")
    environment = {**os.environ, **settings, "PYTHONPATH": support}
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path)], env=environment)
    log = tmp_path / "log"
    eventually_sync(lambda: log.exists() and "event=serving" in log.read_text())
    note = tmp_path / "pid"
    pid = int(
        eventually_sync(lambda: note.exists() and note.read_text(), why="the parent has noted the sidecar")
    )
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    eventually_sync(lambda: not Path(f"/proc/{pid}").exists(), why="the sidecar is gone")
