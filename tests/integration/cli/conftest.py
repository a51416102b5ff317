"""The command in this process, and local modes in processes of their own that leave nothing behind."""

import asyncio
import json
import os
import re
import sys
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import claimq as claimq_library
from claimq_cli.__main__ import main
from claimq_local.processes import process_table
from claimq_local.processes.process_table import end_all
from claimq_local.state_directory import RunState, StateDirectory
from testkit.plugin import QueueDo
from testkit.programs.forked import ForkedProcess
from testkit.programs.processes import Process
from testkit.servers.patient import patient
from testkit.servers.server import Server
from testkit.waiting import eventually_sync

_HANGING_APP = """
import pathlib, sys, time
import claimq.worker
folder = pathlib.Path(sys.argv[1])
with claimq.worker.connect() as worker:
    for item in worker.items(wait=1.0):
        with item:
            if item.text == "stuck" and not (folder / "stuck").exists():
                (folder / "stuck").touch()
                time.sleep(3600)
            with (folder / "done").open("a") as results:
                results.write(item.text + "\\n")
"""


@dataclass(frozen=True)
class Answer:
    """What a command ended with."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Claimq = Callable[..., Answer]


@pytest.fixture(autouse=True)
def _no_settings_of_the_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("CLAIMQ_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def claimq(capsys: pytest.CaptureFixture[str]) -> Claimq:
    """Runs the command with these arguments."""

    def run(*arguments: str) -> Answer:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        captured = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Answer(ended.value.code, captured.out, captured.err)

    return run


@pytest.fixture
def on(valkey: Server, claimq: Claimq, monkeypatch: pytest.MonkeyPatch) -> Claimq:
    """The same, with $CLAIMQ_REDIS_URL naming a server of the test."""
    monkeypatch.setenv("CLAIMQ_REDIS_URL", valkey.url)
    return claimq


@pytest.fixture
def queue_do(valkey: Server) -> QueueDo:
    """Runs something on the queue `q` by the library, as the worker `w`."""

    def run(work: Callable[[claimq_library.ReliableQueue], Coroutine[Any, Any, Any]]) -> Any:
        async def connected() -> Any:
            async with claimq_library.connect(settings=patient(valkey.url)) as server:
                return await work(server.queue("q", worker="w"))

        return asyncio.run(connected())

    return run


class Up:
    """A `claimq up` of a test: its process, its state directory, what it printed."""

    def __init__(self, folder: Path, arguments: tuple[str, ...]) -> None:
        self.folder = folder
        self.directory = StateDirectory(folder / ".claimq")
        self.log = folder / "up.log"
        self.arguments = arguments
        self.process = self._start()
        self.marks: set[str] = set()
        self.socket_directories: set[Path] = set()

    def _start(self) -> Process:
        manifest = str(self.folder / "queue.yaml")
        return ForkedProcess(
            "claimq_cli", "up", "-f", manifest, *self.arguments, log=self.log, cwd=self.folder
        )

    def again(self) -> None:
        """Starts it once more, in the same place."""
        self.process = self._start()
        self.until_running()

    @property
    def text(self) -> str:
        return self.log.read_text()

    @property
    def state(self) -> RunState:
        """What it wrote down; AssertionError while it has not."""
        state = self.directory.read()
        assert state is not None
        assert state.pid == self.process.pid
        self.marks.add(state.mark)
        self.socket_directories.add(Path(state.sockets))
        return state

    def until_running(self) -> None:
        """Waits until its queues can be used."""

        eventually_sync(lambda: bool(self.state.queues), why="the queues can be used", needs=[self.process])

    def until_says(self, pattern: str) -> None:
        """Waits until it has printed this."""
        why = f"{pattern!r} in the output of claimq up"
        eventually_sync(lambda: re.search(pattern, self.text), why=why, needs=[self.process])

    def pids(self, role: str) -> list[int]:
        """The processes of one role that run now."""
        return [
            one.pid for one in self.state.processes if one.role == role and process_table.identify(one.pid)
        ]

    def until_pids(self, role: str, number: int) -> list[int]:
        """Waits until so many run."""
        eventually_sync(lambda: len(self.pids(role)) == number, why=f"{number} processes: {role}")
        return self.pids(role)

    def left(self) -> list[str]:
        """What is there now of processes and sockets, of all runs."""
        processes = [str(one) for mark in self.marks for one in process_table.marked(mark)]
        sockets = [str(place) for place in self.socket_directories if place.exists()]
        return [*processes, *sockets]

    def close(self) -> None:
        """Kills it and all that it started."""
        self.process.kill9()
        state = self.directory.read()
        if state is not None:
            self.marks.add(state.mark)
            self.directory.forget_run(state)
        end_all(lambda: [one for mark in self.marks for one in process_table.marked(mark)])


StartUp = Callable[..., Up]


@pytest.fixture
def start_up(tmp_path: Path) -> Iterator[StartUp]:
    """Starts `claimq up` on a manifest (its spec as JSON) and waits until it runs."""
    started: list[Up] = []

    def start(spec: dict[str, object], *arguments: str, wait: bool = True) -> Up:
        manifest = {
            "apiVersion": "claimq.dev/v1alpha1",
            "kind": "ReliableQueue",
            "metadata": {"name": "trial"},
            "spec": spec,
        }
        (tmp_path / "queue.yaml").write_text(json.dumps(manifest))
        started.append(Up(tmp_path, arguments))
        if wait:
            started[-1].until_running()
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.fixture
def hanging_app(tmp_path: Path) -> list[str]:
    """The command of an app that hangs with the first item `stuck` that it gets, and writes down what it has done."""
    (tmp_path / "worker.py").write_text(_HANGING_APP)
    return [sys.executable, str(tmp_path / "worker.py"), str(tmp_path)]
