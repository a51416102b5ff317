"""Connections to the app: which one the next request uses, and what becomes of one that the app does not accept."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest

from claimq_sidecar.push.app_connection import AppConnection
from claimq_sidecar.push.app_connections import CONNECT_SECONDS, IDLE_SECONDS, AppConnections
from claimq_sidecar.push.decisions import NoResponse, Response
from testkit.skipping_loop import run_skipping
from testkit.waiting import PATIENCE


@pytest.fixture
async def connections(tmp_path: Path) -> AsyncGenerator[AppConnections]:
    server = await asyncio.get_running_loop().create_unix_server(asyncio.Protocol, str(tmp_path / "s"))
    made = AppConnections(None, tmp_path / "s")
    yield made
    made.close()
    server.close()


async def test_the_connection_that_was_used_last_is_used_again(connections: AppConnections) -> None:
    first, second = await connections.open(), await connections.open()
    connections.give_back(first)
    connections.give_back(second)
    assert connections.take() is second
    assert connections.take() is first
    assert connections.take() is None


async def test_one_that_was_idle_for_long_is_closed_instead(connections: AppConnections) -> None:
    idle = await connections.open()
    connections.give_back(idle)
    idle.idle_since -= IDLE_SECONDS
    assert connections.take() is None
    assert not idle.is_open


@pytest.fixture
def full(tmp_path: Path) -> Iterator[socket.socket]:
    """A Unix socket that listens, and whose queue of connections has no room for another one."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "full"))
    listening.listen(0)
    first = socket.socket(socket.AF_UNIX)
    first.connect(str(tmp_path / "full"))
    yield listening
    first.close()
    listening.close()


def answer_two(listening: socket.socket) -> None:
    """Accepts the connection that waits and the next one, and answers the request of that one."""
    listening.settimeout(PATIENCE)
    first, _ = listening.accept()
    second, _ = listening.accept()
    with first, second:
        assert second.recv(100)
        second.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")


async def test_a_connection_waits_for_room_in_the_queue_of_the_app(full: socket.socket) -> None:
    connections = AppConnections(None, Path(full.getsockname()))
    opening = asyncio.ensure_future(connections.open())
    done, _ = await asyncio.wait({opening}, timeout=0.05)
    assert not done
    answering = asyncio.ensure_future(asyncio.to_thread(answer_two, full))
    connection = await opening
    result: asyncio.Future[Response | NoResponse] = asyncio.get_running_loop().create_future()

    def end(_: AppConnection, response: Response | NoResponse) -> None:
        result.set_result(response)

    connection.send(b"GET / HTTP/1.1\r\n\r\n", PATIENCE, end)
    assert await result == Response(200, {})
    await answering
    connections.close()


def test_a_queue_that_stays_full_is_an_error(full: socket.socket) -> None:
    async def run() -> float:
        with pytest.raises(OSError, match=r"within 5 s; its queue of connections may be full"):
            await AppConnections(None, Path(full.getsockname())).open()
        return asyncio.get_running_loop().time()

    assert run_skipping(run()) == pytest.approx(CONNECT_SECONDS)
