"""The session of the shell worker, with a small sidecar of the test's own that sends many lines."""

import hashlib
import json
import shutil
import socketserver
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from claimq_local.processes import process_table
from testkit.faults.waiting_pipe import Pipe
from testkit.programs.processes import Process, whole_lines
from testkit.repository.tree import ROOT
from testkit.waiting import PATIENCE, eventually_sync

LINE = b'{"draining": false}'.ljust(1023) + b"\n"
LINES = 1500
"""Far more than a pipe and a socket have room for."""
missing = [program for program in ("bash", "curl", "jq") if not shutil.which(program)]
pytestmark = pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


class FakeSidecar(socketserver.ThreadingUnixStreamServer):
    """Gives one item, whose session it keeps open. ``is_draining``: the next claim ends the worker."""

    daemon_threads = True

    def __init__(self, folder: Path, item: Path) -> None:
        super().__init__(str(folder / "socket"), Handler)
        self.claims = [{"token": "t", "id": "1", "text": str(item)}]
        self.send_lines = threading.Event()
        self.lines_are_read = threading.Event()
        self.session_is_gone = threading.Event()
        self.is_draining = threading.Event()


class Handler(BaseHTTPRequestHandler):
    """Answers the worker's requests."""

    timeout = PATIENCE

    @property
    def sidecar(self) -> FakeSidecar:
        """The server."""
        assert isinstance(self.server, FakeSidecar)
        return self.server

    def do_POST(self) -> None:
        """Answers one request."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        if self.path == "/v1/session":
            self._session()
        elif self.path == "/v1/claim":
            claims, self.sidecar.claims = self.sidecar.claims, []
            if not claims:
                self.sidecar.is_draining.wait(PATIENCE)
            self._json({"claims": claims, "draining": not claims})
        else:
            self._json({"results": []})

    def _session(self) -> None:
        self._json({"session": "s"})
        self.sidecar.send_lines.wait(PATIENCE)
        for _ in range(LINES):
            self.wfile.write(LINE)
        self.sidecar.lines_are_read.set()
        with suppress(ConnectionError):  # if it ends with lines that it has not read
            self.rfile.read()
        self.sidecar.session_is_gone.set()

    def _json(self, value: object) -> None:
        self.wfile.write(json.dumps(value).encode() + b"\n")

    def address_string(self) -> str:
        """A Unix socket has no address."""
        return "worker"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base class has it
        """Logs nothing."""


@pytest.fixture
def pipe(tmp_path: Path) -> Pipe:
    return Pipe(tmp_path / "pipe")


@pytest.fixture
def sidecar(tmp_path: Path, pipe: Pipe) -> Iterator[FakeSidecar]:
    with FakeSidecar(tmp_path, pipe.path) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join(PATIENCE)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def worker(sidecar: FakeSidecar, pipe: Pipe, log: Path) -> Iterator[Process]:
    """A worker in the middle of an item."""
    env = {"CLAIMQ_SOCKET": str(sidecar.server_address)}
    started = Process(["setsid", "bash", ROOT / "examples" / "languages" / "worker.sh"], log=log, env=env)
    eventually_sync(pipe.is_read, why="the worker reads the pipe")
    yield started
    started.kill9()


def of_group(group: int) -> list[int]:
    """The running processes that the worker has started."""
    running = [int(one.name) for one in Path("/proc").iterdir() if one.name.isdigit()]
    return [pid for pid in running if process_table.group_of(pid) == group and process_table.identify(pid)]


def test_many_lines_of_a_session_are_read_while_an_item_is_in_progress(
    sidecar: FakeSidecar, worker: Process, pipe: Pipe, log: Path
) -> None:
    sidecar.send_lines.set()
    assert sidecar.lines_are_read.wait(PATIENCE)
    assert not sidecar.session_is_gone.is_set()
    pipe.write(b"content")
    sidecar.is_draining.set()
    assert worker.wait() == 0
    assert whole_lines(log) == [f"{hashlib.sha256(b'content').hexdigest()} 1"]
    assert sidecar.session_is_gone.wait(PATIENCE)
    eventually_sync(lambda: of_group(worker.pid) == [], why="the worker leaves no process")


def test_the_session_ends_when_only_the_shell_is_killed(
    sidecar: FakeSidecar, worker: Process, pipe: Pipe
) -> None:
    sidecar.send_lines.set()
    assert sidecar.lines_are_read.wait(PATIENCE)
    worker.kill9()
    assert sidecar.session_is_gone.wait(PATIENCE)
    pipe.close()
    eventually_sync(lambda: of_group(worker.pid) == [], why="the worker leaves no process")
