"""A watch of the tests can be ended at any byte, and one that the server ends is reported."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from testkit.kubernetes.watching import watched
from testkit.waiting import eventually_sync

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
EVENT = b'{"object": {"kind": "Pod"}}\n'
CHUNK = b"%x\r\n%s\r\n" % (len(EVENT), EVENT)
PARTS = (b"", b"1", CHUNK[:-2], CHUNK[:10], b"%x\r\n" % len(EVENT))
"""What has arrived of the next event."""


@pytest.fixture
def api(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(tmp_path / "api"))
        made.listen()
        yield made


def serve(server: socket.socket, raw: bytes, *, stays: bool) -> Any:
    """Answers one watch with these bytes, then keeps the connection open or ends it. Returns the cluster."""

    def answer() -> None:
        with server.accept()[0] as client:
            client.recv(65536)
            client.sendall(raw)
            while stays and client.recv(65536):
                pass

    threading.Thread(target=answer, daemon=True).start()
    return SimpleNamespace(api_socket=lambda: Path(server.getsockname()))


@pytest.mark.parametrize("part", PARTS)
def test_a_watch_can_be_ended_at_any_byte(api: socket.socket, part: bytes) -> None:
    with watched(serve(api, HEAD + CHUNK + part, stays=True), "/pods") as states:
        eventually_sync(lambda: states)
    assert states[0] == {"kind": "Pod"}


@pytest.mark.parametrize("part", [*PARTS, b"0\r\n\r\n"])
def test_a_watch_that_the_server_ends_is_reported(api: socket.socket, part: bytes) -> None:
    with (
        pytest.raises(AssertionError, match="the API server has ended the watch"),
        watched(serve(api, HEAD + CHUNK + part, stays=False), "/pods"),
    ):
        eventually_sync(lambda: all(thread.name != "watch" for thread in threading.enumerate()))
