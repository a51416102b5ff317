"""A real sidecar process of a test's own, and a plain HTTP client for its two servers."""

import fcntl
import http.client
import json
import re
import shutil
import signal
import socket
import sys
import tempfile
import termios
import threading
from array import array
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from claimq.blocking import BlockingQueue
from claimq.model import State
from claimq_process.names import WAITS_FOR_APP
from testkit.programs.forked import ForkedProcess
from testkit.programs.processes import Process
from testkit.servers.started import Started
from testkit.waiting import PATIENCE, eventually_sync

KEY = "the-key"
"""The lifecycle key of every sidecar of a test, unless the test says otherwise."""
SERVING = re.compile(r"event=serving .*health_port=(\d+)\s")
DRAIN_STARTED = re.compile(r"event=drain_started in_flight=(\d+)\s")


def is_renewed(queue: BlockingQueue, token: str, lease_until: float | None) -> bool:
    """Whether the lease of a claim ends later now. ``lease_until``: when it ended before."""
    ends = {one.name: one.lease_until or 0.0 for one in queue.items(State.BUSY)}
    return ends.get(token, 0.0) > (lease_until or 0.0)


@dataclass(frozen=True)
class Answer:
    """A reply: status, headers by lower-case name, body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class UnixConnection(http.client.HTTPConnection):
    """http.client over a Unix socket."""

    def __init__(self, path: Path, timeout: float = PATIENCE) -> None:
        super().__init__("claimq", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        """Connects to the socket's file."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))

    def ask(self, method: str, path: str, body: object = None) -> Answer:
        """Makes a request (a body that is not bytes is sent as JSON) and reads the whole reply."""
        raw = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        self.request(method, path, raw)
        reply = self.getresponse()
        headers = {name.lower(): value for name, value in reply.getheaders()}
        return Answer(reply.status, headers, reply.read())


def _connected(path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.settimeout(PATIENCE)
    made.connect(str(path))
    return made


class OpenSession:
    """A session held open by this process; `close` ends it as the death of the app would."""

    PATH = b"/v1/session"

    def __init__(self, path: Path, body: object = None) -> None:
        """``path``: the sidecar's socket."""
        self._socket = _connected(path)
        raw = json.dumps(body or {}).encode()
        head = b"POST %s HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s"
        self._socket.sendall(head % (self.PATH, len(raw), raw))
        self._stream = self._socket.makefile("rb")
        while self._stream.readline().strip():
            pass
        self.first = self.line()
        self.id: str = self.first["session"]

    def line(self) -> Any:
        """The next line that is no sign of life, None at the end of the stream."""
        while (line := self.any_line()) == {"draining": False}:
            pass
        return line

    def any_line(self) -> Any:
        """The next line, None at the end of the stream."""
        size = int(self._stream.readline() or b"0", 16)
        return json.loads(self._stream.read(size + 2)) if size else None

    def skip(self, size: int) -> None:
        """Reads so many bytes of the next lines, and at most some KiB more."""
        self._stream.read(size)

    def unread_bytes(self) -> int:
        """The bytes that wait in the socket."""
        size = array("i", [0])
        fcntl.ioctl(self._socket, termios.FIONREAD, size)
        return size[0]

    def close(self) -> None:
        """Ends the connection."""
        self._stream.close()
        self._socket.close()


class OpenStream(OpenSession):
    """A stream held open by this process, which reads a line only when it is asked for items."""

    PATH = b"/v1/stream"

    def items(self, count: int) -> list[Any]:
        """Reads lines until it has so many items, or more if the last line has more."""
        found: list[Any] = []
        while len(found) < count:
            line = self.line()
            assert line is not None, "the stream has ended"
            found += line.get("claims", ())
        return found


class Sidecar(Started):
    """`python -m claimq_sidecar` for one queue, on a socket and a health port of its own."""

    def __init__(self, url: str, queue: str = "q", worker: str = "w", **settings: str) -> None:
        """Does not start it. `settings` are environment variables without CLAIMQ_, in lower case."""
        self.dir = Path(tempfile.mkdtemp(prefix="claimq-", dir="/tmp"))
        self.socket = self.dir / "run" / "s"
        self.log = self.dir / "log"
        self.health_port = 0
        self.process: Process | None = None
        self.wrapper: tuple[str, ...] = ()
        """A command that becomes the sidecar, which is its arguments; without one the sidecar is forked."""
        self._sessions: list[OpenSession] = []
        own = {"queue": queue, "worker": worker, "socket": str(self.socket), "health_port": "0"}
        base = {"redis_url": url, "lifecycle_key": KEY, **own}
        self.env = {f"CLAIMQ_{name.upper()}": value for name, value in {**base, **settings}.items()}

    def start(self, *, wait: bool = True) -> Self:
        """Starts it and waits until it serves and (if `wait`) is ready.

        AssertionError if it does not get there, CannotHappen if it ends, both with its log.
        """
        seen = len(self.log_text)
        if self.wrapper:
            command = [*self.wrapper, sys.executable, "-m", "claimq_sidecar"]
            self.process = Process(command, log=self.log, env=self.env, cwd=self.dir)
        else:
            self.process = ForkedProcess("claimq_sidecar", log=self.log, env=self.env, cwd=self.dir)

        def serving() -> bool:
            found = SERVING.search(self.log_text[seen:])
            self.health_port = int(found[1]) if found else 0
            return found is not None and (not wait or self._can_serve())

        try:
            eventually_sync(serving, why="the sidecar serves", needs=[self.process])
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log_text}") from None
        return self

    def _can_serve(self) -> bool:
        """Whether it is ready, or would be with the app that it sends items to."""
        return self.health("/readyz").json["status"] in ("ready", WAITS_FOR_APP)

    @property
    def log_text(self) -> str:
        """All that it has logged."""
        return self.log.read_text() if self.log.exists() else ""

    @property
    def running(self) -> Process:
        """Its process."""
        assert self.process is not None
        return self.process

    def connect(self) -> socket.socket:
        """A bare connection to its socket."""
        return _connected(self.socket)

    def ask(self, method: str, path: str, body: object = None) -> Answer:
        """One request on a connection of its own."""
        connection = UnixConnection(self.socket)
        try:
            return connection.ask(method, path, body)
        finally:
            connection.close()

    def post(self, path: str, **body: object) -> Any:
        """POST that must be answered with 200; returns the JSON."""
        answer = self.ask("POST", path, body)
        assert answer.status == 200, answer.body
        return answer.json

    def claim(self, count: int = 1, **body: object) -> list[Any]:
        """Claims in a reply, without waiting unless `wait` says so."""
        claims: list[Any] = self.post("/v1/claim", **{"max": count, "wait": 0, **body})["claims"]
        return claims

    def outcomes(self, verb: str, *tokens: str, **words: object) -> list[str]:
        """The outcomes of a verdict."""
        return [one["outcome"] for one in self.post(f"/v1/{verb}", tokens=list(tokens), **words)["outcomes"]]

    @property
    def info(self) -> Any:
        """GET /v1/info."""
        return self.ask("GET", "/v1/info").json

    def open_session(self, body: object = None) -> OpenSession:
        """Opens a session; `close` of this sidecar closes it too."""
        self._sessions.append(OpenSession(self.socket, body))
        return self._sessions[-1]

    def open_stream(self, **body: object) -> OpenStream:
        """Opens a stream; `close` of this sidecar closes it too."""
        stream = OpenStream(self.socket, {"encoding": "text", **body})
        self._sessions.append(stream)
        return stream

    def health(
        self,
        path: str,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """A request on the health port."""
        connection = http.client.HTTPConnection("127.0.0.1", self.health_port, timeout=PATIENCE)
        try:
            connection.request(method, path, headers=dict(headers or {}))
            reply = connection.getresponse()
            return Answer(reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read())
        finally:
            connection.close()

    def drain(self, path: str = "/drain") -> Answer:
        """Begins a drain at the health port, with the key."""
        return self.health(path, method="POST", headers={"claimq-lifecycle-key": KEY})

    def begin_drain(self) -> int:
        """SIGTERM; returns how many claims are in flight when the drain begins."""
        seen = len(self.log_text)
        self.running.send(signal.SIGTERM)
        begun = eventually_sync(
            lambda: DRAIN_STARTED.search(self.log_text[seen:]), why="the drain begins", needs=[self.running]
        )
        assert begun
        return int(begun[1])

    def metric(self, name: str) -> float:
        """One value of its metrics; 0.0 if it has none yet."""
        for line in self.health("/metrics").body.decode().splitlines():
            if line.startswith(f"{name} "):
                return float(line.rsplit(" ", 1)[1])
        return 0.0

    @property
    def rss_mb(self) -> float:
        """Its resident memory in megabytes."""
        return self._memory_mb("VmRSS")

    @property
    def peak_mb(self) -> float:
        """The most memory that it has had resident so far, in megabytes."""
        return self._memory_mb("VmHWM")

    def _memory_mb(self, field: str) -> float:
        status = Path(f"/proc/{self.running.pid}/status").read_text()
        return int(status.split(f"{field}:")[1].split()[0]) / 1024

    def kill9(self) -> None:
        """SIGKILL."""
        self.running.kill9()

    def close(self) -> None:
        """Kills it and removes its directory."""
        for session in self._sessions:
            session.close()
        if self.process is not None:
            self.process.kill9()
        shutil.rmtree(self.dir, ignore_errors=True)


def post(sidecar: Sidecar, path: str, body: bytes) -> int:
    """The status of one request."""
    with closing(UnixConnection(sidecar.socket)) as connection:
        return connection.ask("POST", path, body).status


def at_once(count: int, ask: Callable[[], int]) -> list[int]:
    """The statuses of requests that are made at the same time; 0 for a connection that was closed instead."""
    statuses: list[int] = []

    def run() -> None:
        try:
            statuses.append(ask())
        except (OSError, EOFError):
            statuses.append(0)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(statuses) == count
    return statuses


StartSidecar = Callable[..., Sidecar]
"""Starts a sidecar at the URL of a server, with these settings."""
