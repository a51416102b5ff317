"""Both servers bound what one connection, and all of them, may make the sidecar keep."""

import socket
from collections.abc import Callable, Iterator

import pytest

from claimq_sidecar.http.connection.arrival import HEAD_SECONDS
from claimq_sidecar.http.connection.protocol import MOST_PIPELINED, AppProtocol, BoundedProtocol
from testkit.faults.raw_requests import sent
from testkit.waiting import PATIENCE, eventually_sync
from testkit.workers.sidecars import Sidecar

GROWTH_MB = 15.0
"""What the worst head may add to a sidecar: far less than the 15 MB that are sent."""
SMALL_FIELDS = b"a:b\r\n" * 3_000_000
CHUNKED = b"POST /v1/claim HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"

INFO = b"GET /v1/info HTTP/1.1\r\nconnection: close\r\n\r\n"


def on_health_port(sidecar: Sidecar) -> socket.socket:
    return socket.create_connection(("127.0.0.1", sidecar.health_port), timeout=PATIENCE)


def on_app_socket(sidecar: Sidecar) -> socket.socket:
    return sidecar.connect()


BOTH = pytest.mark.parametrize("connect", [on_app_socket, on_health_port])
Connect = Callable[[Sidecar], socket.socket]


@BOTH
@pytest.mark.parametrize(
    "head",
    [
        b"GET /healthz HTTP/1.1\r\n" + SMALL_FIELDS,
        b"GET /healthz HTTP/1.1\r\nx: " + b"y" * 15_000_000,
        b"GET /healthz HTTP/1.1\r\n" + b"y" * 15_000_000,
        b"GET /" + b"y" * 15_000_000,
        CHUNKED + b"0\r\n" + SMALL_FIELDS,
        CHUNKED + b"0\r\nx: " + b"y" * 15_000_000,
        CHUNKED + b"1;" + b"y" * 15_000_000,
    ],
    ids=[
        "small headers",
        "a long value",
        "a long name",
        "a long path",
        "trailers",
        "a trailer",
        "an extension",
    ],
)
def test_fifteen_megabytes_of_head_or_trailers_stay_nowhere(
    sidecar: Sidecar, connect: Connect, head: bytes
) -> None:
    before = sidecar.peak_mb
    sent(connect(sidecar), head)
    assert sidecar.peak_mb - before < GROWTH_MB
    assert sidecar.info["ready"]
    assert sidecar.health("/healthz").status == 200


@BOTH
@pytest.mark.parametrize("fields", [b"x: y\r\n" * 101, b"x: " + b"y" * 17_000 + b"\r\n"])
def test_a_head_over_the_limit_is_answered_with_431(
    shared_sidecar: Sidecar, connect: Connect, fields: bytes
) -> None:
    answer = sent(connect(shared_sidecar), b"GET /healthz HTTP/1.1\r\n" + fields + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert b"head-too-large" in answer


def test_trailers_over_the_limit_are_answered_with_431(shared_sidecar: Sidecar) -> None:
    answer = sent(shared_sidecar.connect(), CHUNKED + b"0\r\n" + b"x: y\r\n" * 101)
    assert answer.startswith(b"HTTP/1.1 431 ")


@BOTH
def test_small_requests_in_one_piece_are_not_kept_by_the_thousand(sidecar: Sidecar, connect: Connect) -> None:
    before = sidecar.peak_mb
    answer = sent(connect(sidecar), b"GET /x HTTP/1.1\r\n\r\n" * 200_000)
    assert answer.count(b"HTTP/1.1 404") <= MOST_PIPELINED + 1
    assert sidecar.peak_mb - before < GROWTH_MB


@BOTH
def test_a_head_that_does_not_end_in_time_is_refused(shared_sidecar: Sidecar, connect: Connect) -> None:
    connection = connect(shared_sidecar)
    connection.settimeout(HEAD_SECONDS * 6)
    answer = sent(connection, b"GET /healthz HTTP/1.1\r\nhost: loc")
    assert answer.startswith(b"HTTP/1.1 408 ")


def test_a_silent_client_of_the_health_port_is_cut_off(shared_sidecar: Sidecar) -> None:
    assert sent(on_health_port(shared_sidecar), b"") == b""
    assert sent(on_health_port(shared_sidecar), b"\r\n") == b""


@pytest.fixture
def silent() -> Iterator[Callable[[Sidecar, Connect, int], None]]:
    """Opens connections that send nothing."""
    opened: list[socket.socket] = []

    def connect_all(sidecar: Sidecar, connect: Connect, count: int) -> None:
        opened.extend(connect(sidecar) for _ in range(count))

    yield connect_all
    for connection in opened:
        connection.close()


@pytest.mark.parametrize(
    ("connect", "most"),
    [(on_app_socket, AppProtocol.most_connections), (on_health_port, BoundedProtocol.most_connections)],
)
def test_silent_connections_make_room_for_one_that_asks(
    sidecar: Sidecar, silent: Callable[[Sidecar, Connect, int], None], connect: Connect, most: int
) -> None:
    other = 32  # other open files of the process
    for _ in range(3):
        silent(sidecar, connect, most)
        connection = connect(sidecar)
        path = b"/v1/info" if connect is on_app_socket else b"/healthz"
        request = b"GET %s HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n" % path
        assert sent(connection, request).startswith(b"HTTP/1.1 200 ")
    eventually_sync(lambda: sidecar.metric("process_open_fds") <= most + other)


def test_where_all_connections_have_a_request_the_next_is_refused(sidecar: Sidecar) -> None:
    body = b'{"wait": 300}'
    claim = b"POST /v1/claim HTTP/1.1\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
    waiting: list[socket.socket] = []

    def one_more_is_refused() -> bytes:
        """One that had not sent its request yet makes room for the one that asks; then another takes its place."""
        answer = sent(sidecar.connect(), INFO)
        if not answer.startswith(b"HTTP/1.1 503 "):
            waiting.append(sidecar.connect())
            waiting[-1].sendall(claim)
            return b""
        return answer

    try:
        for _ in range(AppProtocol.most_connections - 1):
            waiting.append(sidecar.connect())
            waiting[-1].sendall(claim)
        answer = eventually_sync(one_more_is_refused)
        assert b"too-many-connections" in answer
        for connection in waiting[:10]:
            connection.close()
        eventually_sync(lambda: sent(sidecar.connect(), INFO).startswith(b"HTTP/1.1 200 "))
        assert sidecar.peak_mb < 100
    finally:
        for connection in waiting:
            connection.close()
