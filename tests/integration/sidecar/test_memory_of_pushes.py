"""Pushes of the largest items to slow apps, by a sidecar with the memory that its manifest gives it: it survives."""

import re
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

import pytest

from claimq.blocking import BlockingQueue
from claimq.model import State
from claimq.policy import Policy
from testkit.faults.memory_cgroup import MemoryCgroup
from testkit.servers.server import Server
from testkit.servers.started import Started
from testkit.waiting import PATIENCE, eventually_sync
from testkit.workers.sidecars import Sidecar, StartSidecar

MIB = 1024 * 1024
LARGEST = 12 * MIB - 64 * 1024
"""What a sidecar with 256 MiB sends. Its headers count too."""
COUNT = 22
"""So many of them have more than the sidecar's whole memory."""
LENGTH = re.compile(rb"content-length: (\d+)\r\n")
MODES = ("binary", "batched")


class SlowApp(Started):
    """Reads requests and keeps nothing of them, or does not read at all. Responds when the test opens the gate."""

    def __init__(self, path: Path, *, reads: bool) -> None:
        self.is_open = threading.Event()
        self.arrived = threading.Semaphore(0)
        self._reads = reads
        self._connections: list[socket.socket] = []
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(path))
        self._listening.listen(128)

    def start(self) -> Self:
        """Accepts connections from now on."""
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def close(self) -> None:
        """Ends all connections."""
        self.is_open.set()
        self._listening.shutdown(socket.SHUT_RDWR)
        for one in (self._listening, *self._connections):
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self._connections.append(connection)
            if self._reads:
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError):  # of a connection that has been closed
            self._respond(connection)

    def _respond(self, connection: socket.socket) -> None:
        head = b""
        scratch = bytearray(MIB)
        while piece := connection.recv(65536):
            head += piece
            begin, found, body = head.partition(b"\r\n\r\n")
            if not found:
                continue
            length = LENGTH.search(begin + b"\r\n")
            assert length is not None
            missing = int(length[1]) - len(body)
            while missing and (read := connection.recv_into(scratch, min(missing, MIB))):
                missing -= read
            self.arrived.release()
            self.is_open.wait(PATIENCE)
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            head = b""


@pytest.fixture
def items(queue: BlockingQueue) -> None:
    """As many of the largest items as exceed the memory of the sidecar."""
    queue.set_policy(Policy(busy_expiry=3600.0, max_payload=LARGEST, requeue_limit=1000))
    for _ in range(COUNT):
        queue.enqueue(b"\xff" * LARGEST)


@pytest.fixture(params=MODES)
def start_pushing(
    request: pytest.FixtureRequest,
    valkey: Server,
    items: None,
    cgroup: MemoryCgroup,
    start_sidecar: StartSidecar,
    tmp_path: Path,
) -> Callable[[str], Sidecar]:
    """Starts a sidecar with a push timeout in the cgroup. It pushes all items at once to ``tmp_path / "app"``."""
    settings = {"push_socket": str(tmp_path / "app"), "push_mode": request.param, "concurrency": str(COUNT)}
    return lambda timeout: start_sidecar(valkey.url, wrapper=cgroup.wrapper, push_timeout=timeout, **settings)


def test_all_slots_are_used_while_the_app_works_on_them(
    queue: BlockingQueue, cgroup: MemoryCgroup, start_pushing: Callable[[str], Sidecar], tmp_path: Path
) -> None:
    with SlowApp(tmp_path / "app", reads=True) as app:
        sidecar = start_pushing("1h")
        for _ in range(COUNT):
            assert app.arrived.acquire(timeout=PATIENCE), (cgroup.kills, cgroup.peak_mb)
        assert (cgroup.kills, sidecar.running.is_running) == (0, True), cgroup.peak_mb
        app.is_open.set()
        eventually_sync(lambda: queue.stats()["done"] == COUNT)


def test_an_app_that_does_not_read_its_requests_does_not_exhaust_the_memory(
    queue: BlockingQueue, cgroup: MemoryCgroup, start_pushing: Callable[[str], Sidecar], tmp_path: Path
) -> None:
    with SlowApp(tmp_path / "app", reads=False):
        sidecar = start_pushing("15s")

        def has_timed_out() -> bool:
            try:
                return sidecar.metric('claimq_sidecar_pushes_total{result="timeout"}') >= 3
            except OSError:  # it was killed
                return True

        eventually_sync(has_timed_out)
        assert (cgroup.kills, sidecar.running.is_running) == (0, True), cgroup.peak_mb
        assert queue.length(State.FAILED) == 0
