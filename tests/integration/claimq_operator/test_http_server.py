"""The operator's port bounds what its clients can cost, seen from outside."""

import contextlib
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from claimq_operator.telemetry.http_server import Limits
from testkit.faults.raw_requests import sent
from testkit.waiting import PATIENCE

GROWTH_MB = 15.0
"""What the worst client may add to the operator: far less than the 15 MB that it sends."""
MANY = 2000
SERVER = """
import asyncio
from claimq_operator.telemetry.http_server import HttpServer, Limits
from claimq_operator.telemetry.liveness import Liveness
from claimq_operator.telemetry.metrics import Metrics
from claimq_process.log_lines import write_log

async def main():
    metrics, liveness = Metrics(), Liveness(asyncio.get_running_loop().time)
    for number in range(LOOPS):
        liveness.beat(f"loop {number} {'x' * 2000}", timeout=1e9)
    limits = Limits(seconds=SECONDS, metrics_reuse_factor=FACTOR)
    await HttpServer(metrics, liveness, lambda: True, limits).serve("127.0.0.1", 0)

write_log("info", quotes_errors=True, quiet=())
asyncio.run(main())
"""


class Running:
    """A process that has only the operator's HTTP server."""

    def __init__(self, seconds: float, loops: int, factor: float) -> None:
        values = {"SECONDS": seconds, "LOOPS": loops, "FACTOR": factor}
        script = SERVER
        for name, value in values.items():
            script = script.replace(name, str(value))
        self.process = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        found = re.search(r"event=serving addresses=127\.0\.0\.1:(\d+)", line)
        assert found is not None, line
        self.port = int(found[1])

    @property
    def peak_mb(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def get(self, path: str) -> bytes:
        request = f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n"
        return sent(self.connect(), request.encode())


Start = Callable[..., Running]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts servers; ends them after the test."""
    running: list[Running] = []

    def make(seconds: float = 600.0, loops: int = 1, factor: float = Limits.metrics_reuse_factor) -> Running:
        running.append(Running(seconds, loops, factor))
        return running[-1]

    yield make
    for one in running:
        one.process.kill()
        one.process.communicate()


def test_the_probes_and_the_metrics_are_served(start: Start) -> None:
    server = start()
    assert server.get("/livez").endswith(b"\r\n\r\nok")
    assert server.get("/readyz?verbose").startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"# TYPE claimq_loop_age_seconds gauge" in server.get("/metrics")
    assert server.get("/").startswith(b"HTTP/1.1 404 ")
    assert sent(server.connect(), b"POST /livez HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 405 ")
    assert sent(server.connect(), b"HEAD /livez HTTP/1.1\r\n\r\n").endswith(
        b"content-length: 2\r\nconnection: close\r\n\r\n"
    )
    assert sent(server.connect(), b"hello\r\n\r\n").startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    "head",
    [
        b"GET /livez HTTP/1.1\r\n" + b"a:b\r\n" * 3_000_000,
        b"GET /livez HTTP/1.1\r\nx: " + b"y" * 15_000_000,
        b"GET /" + b"y" * 15_000_000,
        b"GET /metrics HTTP/1.1\r\n\r\n" * 600_000,
        b"POST /livez HTTP/1.1\r\ncontent-length: 15000000\r\n\r\n" + b"y" * 15_000_000,
    ],
    ids=["small headers", "a long value", "a long path", "pipelined", "a body"],
)
def test_fifteen_megabytes_from_one_client_are_not_kept(start: Start, head: bytes) -> None:
    server = start()
    before = server.peak_mb
    sent(server.connect(), head)
    assert server.peak_mb - before < GROWTH_MB
    assert server.get("/livez").startswith(b"HTTP/1.1 200 ")


def test_a_head_over_the_limit_is_answered_with_431(start: Start) -> None:
    answer = sent(start().connect(), b"GET /livez HTTP/1.1\r\n" + b"x: y\r\n" * 4000)
    assert answer.startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize(
    ("head", "growth_mb"),
    [(b"", GROWTH_MB), (b"GET /livez HTTP/1.1\r\nx: " + b"y" * 16_000, 2 * GROWTH_MB)],
    ids=["idle", "slow heads"],
)
def test_two_thousand_open_connections_leave_the_port_usable(
    start: Start, head: bytes, growth_mb: float
) -> None:
    # 256 are open, and several hundred more may be closing at the same time.
    server = start()
    before = server.peak_mb
    with contextlib.ExitStack() as opened:
        for _ in range(MANY):
            connection = opened.enter_context(server.connect())
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(head)
        assert server.get("/livez").startswith(b"HTTP/1.1 200 ")
        assert server.peak_mb - before < growth_mb


def test_many_requests_for_metrics_share_what_one_costs(start: Start) -> None:
    """With 1,000 queues it takes a third of a second of the event loop, and every pod may ask."""
    assert Limits.metrics_reuse_factor >= 5
    server = start(loops=2000, factor=10_000)  # so long that it does not matter how slow the clients are
    bodies = {server.get("/metrics").partition(b"\r\n\r\n")[2] for _ in range(30)}
    assert len(bodies) <= 15  # each rendering has other ages of loops


def test_clients_that_do_not_read_metrics_keep_little_of_them(start: Start) -> None:
    server = start(loops=600)
    size = len(server.get("/metrics"))
    assert size > 1_000_000
    before = server.peak_mb
    with contextlib.ExitStack() as opened:
        for _ in range(200):
            connection = opened.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", server.port))
            connection.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert server.get("/livez").startswith(b"HTTP/1.1 200 ")
        assert server.peak_mb - before < GROWTH_MB + 10 * size / 1e6


@pytest.mark.parametrize("head", [b"", b"GET /livez HTTP/1.1\r\nhost: loc"])
def test_a_connection_ends_when_its_time_is_over(start: Start, head: bytes) -> None:
    assert sent(start(seconds=0.05).connect(), head) == b""
