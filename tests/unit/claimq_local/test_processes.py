"""Who a process is, and clearing away those of a killed run and no others."""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from claimq.address import local_mode
from claimq_admin.errors import LocalModeError
from claimq_local import discovery, leftovers
from claimq_local.processes import die_with_parent, process_table
from claimq_local.processes.process_table import Identity
from claimq_local.state_directory import ROOM_FOR_NAME, Running, RunState, StateDirectory
from claimq_local.workers.worker import socket_name
from testkit.programs.processes import Process
from testkit.waiting import eventually_sync

MARK = f"a-mark-of-this-test-{secrets.token_hex(8)}"
"""One of this process: other runs of these tests kill what bears theirs."""


@pytest.fixture
def sleeper() -> Iterator[Process]:
    with Process(["sleep", "60"]) as process:
        eventually_sync(lambda: b"sleep" in Path(f"/proc/{process.pid}/cmdline").read_bytes())
        yield process


@pytest.fixture
def marked_sleeper() -> Iterator[Process]:
    with Process(["sleep", "60"], env={process_table.MARK: MARK}) as process:
        eventually_sync(lambda: process_table.has_variable(process.pid, f"{process_table.MARK}={MARK}"))
        yield process


@pytest.fixture
def directory() -> Iterator[StateDirectory]:
    place = Path(tempfile.mkdtemp())  # short: sockets find room in it
    found = StateDirectory(place / "state")
    found.hold()
    yield found
    found.release()
    shutil.rmtree(place)


def a_run(directory: StateDirectory, *processes: Running, boot: str = "") -> RunState:
    sockets = directory.make_socket_directory()
    (sockets / "one.sock").touch()
    state = RunState(
        MARK,
        boot or process_table.boot_id(),
        1,
        1,
        str(sockets),
        {"q": "unix:///s"},
        list(processes),
        {"q": ["w"]},
    )
    directory.write(state)
    return state


def identity(process: Process) -> Identity:
    found = process_table.identify(process.pid)
    assert found is not None
    return found


def test_a_process_is_known_by_its_start_time_too(sleeper: Process) -> None:
    known = identity(sleeper)
    assert not process_table.send(Identity(known.pid, known.started - 1), signal.SIGKILL)
    assert sleeper.is_running
    assert process_table.send(known, signal.SIGKILL)
    assert sleeper.wait() == -signal.SIGKILL
    assert not process_table.send(known, signal.SIGKILL)


def test_an_ended_process_that_was_not_waited_for_is_no_process() -> None:
    pid = os.posix_spawn("/bin/true", ["true"], {})
    try:
        eventually_sync(lambda: process_table.identify(pid) is None)
        assert Path(f"/proc/{pid}").exists()
    finally:
        os.waitpid(pid, 0)


def test_marked_processes_are_found_and_others_are_not(sleeper: Process, marked_sleeper: Process) -> None:
    found = {one.pid for one in process_table.marked(MARK)}
    assert found == {marked_sleeper.pid}
    assert sleeper.pid not in found


def test_the_remains_of_a_killed_run_are_cleared(
    directory: StateDirectory, sleeper: Process, marked_sleeper: Process
) -> None:
    written = Running("app", "q-1", sleeper.pid, identity(sleeper).started)
    state = a_run(directory, written)
    assert leftovers.clear(directory) == state
    assert sleeper.wait() == marked_sleeper.wait() == -signal.SIGKILL
    assert not Path(state.sockets).exists()
    assert leftovers.clear(directory) is None


def test_a_process_that_only_got_an_old_number_is_left_alone(
    directory: StateDirectory, sleeper: Process
) -> None:
    a_run(directory, Running("app", "q-1", sleeper.pid, identity(sleeper).started - 100))
    leftovers.clear(directory)
    assert sleeper.is_running


def test_after_a_reboot_no_number_means_anything(
    directory: StateDirectory, sleeper: Process, marked_sleeper: Process
) -> None:
    a_run(directory, Running("app", "q-1", sleeper.pid, identity(sleeper).started), boot="another boot")
    leftovers.clear(directory)
    assert sleeper.is_running
    assert marked_sleeper.is_running


def test_a_state_file_that_cannot_be_understood_is_nothing_to_clear(directory: StateDirectory) -> None:
    directory.state_file.write_text('{"mark": 1')
    assert leftovers.clear(directory) is None
    directory.state_file.write_text('{"processes": [{"pid": 1}]}')
    assert leftovers.clear(directory) is None


def test_only_the_runs_own_sockets_are_removed(directory: StateDirectory, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    state = a_run(directory)
    state.sockets = str(precious)
    directory.forget_run(state)
    assert precious.exists()


def test_two_local_modes_cannot_hold_one_directory(directory: StateDirectory) -> None:
    with pytest.raises(LocalModeError, match=r"is already running in .*; stop it, or give another directory"):
        StateDirectory(directory.path).hold()
    assert local_mode.is_running(directory.path)
    directory.release()
    assert not local_mode.is_running(directory.path)


def test_a_directory_that_cannot_be_made_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LocalModeError, match=r"cannot use .*; give another directory with --data"):
        StateDirectory(tmp_path / "file" / "state").hold()


def test_only_its_owner_can_read_the_state_file(directory: StateDirectory) -> None:
    state = a_run(directory)
    assert directory.state_file.stat().st_mode & 0o077 == 0
    assert directory.read() == state


def test_sockets_move_where_the_path_is_too_long_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / ("also-long" * 10)))
    long = StateDirectory(tmp_path / ("long" * 20) / "state")
    long.hold()
    try:
        state = a_run(long)
        place = Path(state.sockets)
        assert len(str(place)) < 80
        assert place.stat().st_mode & 0o077 == 0
        long.forget_run(state)
        assert not place.exists()
    finally:
        long.release()


def test_a_running_local_mode_is_found_and_a_dead_one_is_forgotten(
    directory: StateDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    discovery.announce(directory)
    assert local_mode.running_anywhere() == [directory.path]
    directory.release()
    assert local_mode.running_anywhere() == []
    assert list(tmp_path.glob("claimq-*/*")) == []
    discovery.withdraw(directory)
    assert list(tmp_path.glob("claimq-*")) == []


def test_a_list_of_local_modes_that_others_can_write_is_not_believed(
    directory: StateDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    discovery.announce(directory)
    next(tmp_path.glob("claimq-*")).chmod(0o777)
    assert local_mode.running_anywhere() == []


def test_sockets_of_queues_whose_names_begin_alike_are_not_the_same() -> None:
    names = {
        socket_name(number, f"thumbnails-for-{name}", 1) for number, name in enumerate(("small", "large"))
    }
    assert len(names) == 2
    assert max(len(name) for name in names) < ROOM_FOR_NAME


def test_a_program_ignores_no_signal_that_python_ignores() -> None:
    wrapper = [sys.executable, "-ISs", die_with_parent.__file__, str(os.getpid())]
    words = [*wrapper, "grep", "SigIgn", "/proc/self/status"]
    ignored = int(subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()[1], 16)
    assert [name for name in (signal.SIGPIPE, signal.SIGXFSZ) if ignored >> (name - 1) & 1] == []
