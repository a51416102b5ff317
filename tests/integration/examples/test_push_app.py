"""The app of examples/push, which uses the SDK of CloudEvents, with a real sidecar and kills."""

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from claimq.blocking import BlockingQueue
from claimq.model import State
from testkit.faults.waiting_pipe import Pipe
from testkit.programs.ports import free_port
from testkit.programs.processes import Process, whole_lines
from testkit.queues.looking import is_empty
from testkit.queues.retries import retrying_at_once
from testkit.repository.tree import ROOT
from testkit.servers.server import Server
from testkit.waiting import eventually_sync
from testkit.workers.sidecars import Sidecar, StartSidecar

APP = ROOT / "examples" / "push" / "app.py"
NAMES = ("plain", "with a space", 'quote " and %41', "ümläut")


class App:
    """The example on a socket of the test's own, or on a port."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "app.sock"
        self.log = folder / "log"
        self._started: list[Process] = []

    def start(self, port: int | None = None) -> Process:
        env = {"CLAIMQ_PUSH_SOCKET": str(self.socket)} if port is None else {"CLAIMQ_PUSH_PORT": str(port)}
        self._started.append(Process([sys.executable, APP], log=self.log, env=env, cwd=self.folder))
        return self._started[-1]

    def close(self) -> None:
        for process in self._started:
            process.kill9()

    @property
    def sums(self) -> list[str]:
        return [line[:64] for line in whole_lines(self.log) if len(line.split(" ")[0]) == 64]


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    made = App(tmp_path)
    yield made
    made.close()


@pytest.fixture
def start(valkey: Server, app: App, start_sidecar: StartSidecar) -> StartSidecar:
    """Starts a sidecar that sends items to the app."""
    pushes = {"push_socket": str(app.socket), "push_probe_path": "/ready", "concurrency": "2"}

    def start(**settings: str) -> Sidecar:
        return start_sidecar(valkey.url, **pushes, **settings)

    return start


def begin(queue: BlockingQueue, app: App, pipe: Pipe) -> Process:
    """The app in the middle of an item."""
    queue.enqueue(str(pipe.path))
    process = app.start()
    eventually_sync(pipe.is_read, why="the app reads the pipe")
    assert queue.length(State.BUSY) == 1
    return process


def wait_until_done(queue: BlockingQueue) -> None:
    eventually_sync(lambda: is_empty(queue))


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_each_file_has_its_checksum_and_a_missing_one_has_failed(
    queue: BlockingQueue, app: App, start: StartSidecar, tmp_path: Path, mode: str
) -> None:
    files = [tmp_path / name for name in NAMES]
    for file in files:
        file.write_text(f"content of {file.name}")
    missing = tmp_path / "missing"
    queue.enqueue_many([str(file) for file in (*files, missing)])
    start(push_mode=mode)
    app.start()
    eventually_sync(lambda: list(queue.lengths().values()) == [0, 0, 0, 1])
    assert sorted(app.sums) == sorted(sha256(file.read_bytes()) for file in files)
    (failed,) = queue.failed_items()
    assert failed.item.payload == bytes(missing)
    assert failed.item.error_detail == f"there is no file {missing}"


def test_the_app_listens_on_a_port_if_it_has_one(
    valkey: Server, queue: BlockingQueue, app: App, start_sidecar: StartSidecar
) -> None:
    file = app.folder / "file"
    file.write_bytes(b"content")
    queue.enqueue(str(file))
    port = free_port()
    start_sidecar(valkey.url, push_port=str(port), push_probe_path="/ready")
    app.start(port)
    wait_until_done(queue)
    assert app.sums == [sha256(b"content")]
    assert not app.socket.exists()


def test_an_item_whose_app_is_killed_goes_to_the_next(
    queue: BlockingQueue, app: App, start: StartSidecar, tmp_path: Path
) -> None:
    queue.set_policy(retrying_at_once())
    pipe = Pipe(tmp_path / "pipe")
    start()
    begin(queue, app, pipe).kill9()
    (item,) = eventually_sync(lambda: queue.peek(2))
    assert (item.fail_count, item.last_error) == (1, "the app closed the connection before it had responded")
    pipe.close()
    app.start()
    eventually_sync(pipe.is_read)
    pipe.write(b"content")
    wait_until_done(queue)
    assert app.sums == [sha256(b"content")]
