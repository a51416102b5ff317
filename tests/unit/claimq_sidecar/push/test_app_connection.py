"""Responses of an app, byte by byte: what counts, what is refused, and which connection is used again."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from claimq_sidecar.push.app_connection import LONGEST_BODY, AppConnection
from claimq_sidecar.push.app_connections import AppConnections
from claimq_sidecar.push.decisions import NoResponse, Response
from testkit.waiting import PATIENCE, eventually

REQUEST = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
Ask = Callable[..., "asyncio.Future[Response | NoResponse]"]


class Backend:
    """Answers each request with the next of `replies`; None closes the connection instead."""

    def __init__(self) -> None:
        self.replies: list[bytes | None] = []
        self.connections = 0
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while await reader.read(65536):
            reply = self.replies.pop(0) if self.replies else b""
            writer.write(reply or b"")
            await writer.drain()
            if reply is None or reply.endswith(b"(end)"):
                break
        writer.close()


@pytest.fixture
async def backend() -> AsyncIterator[Backend]:
    made = Backend()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    yield made
    server.close()


@pytest.fixture
async def connections(backend: Backend) -> AsyncIterator[AppConnections]:
    made = AppConnections(backend.port, None)
    yield made
    made.close()


async def exchange(connections: AppConnections, timeout: float = PATIENCE) -> Response | NoResponse:
    """One request, on an idle connection if there is one."""
    connection = connections.take() or await connections.open()
    result: asyncio.Future[Response | NoResponse] = asyncio.get_running_loop().create_future()

    def end(ended: AppConnection, response: Response | NoResponse) -> None:
        connections.give_back(ended)
        result.set_result(response)

    connection.send(REQUEST, timeout, end)
    return await result


async def test_a_connection_is_used_again(backend: Backend, connections: AppConnections) -> None:
    chunked = b"HTTP/1.1 500 X\r\nRetry-After: 3\r\nother: 1\r\ntransfer-encoding: chunked\r\n\r\n3\r\nwhy\r\n0\r\n\r\n"
    backend.replies = [OK, chunked, OK]
    assert await exchange(connections) == Response(200, {})
    assert await exchange(connections) == Response(500, {"retry-after": "3"}, b"why")
    assert await exchange(connections) == Response(200, {})
    assert backend.connections == 1


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n",
        OK + OK,
        OK + b"garbage",
    ],
)
async def test_a_connection_that_the_app_closes_or_spoils_is_not_used_again(
    backend: Backend, connections: AppConnections, reply: bytes
) -> None:
    backend.replies = [reply, b"HTTP/1.1 201 X\r\ncontent-length: 0\r\n\r\n"]
    assert await exchange(connections) == Response(200, {})
    assert await exchange(connections) == Response(201, {})
    assert backend.connections == 2


async def test_a_body_without_a_length_ends_with_the_connection(
    backend: Backend, connections: AppConnections
) -> None:
    backend.replies = [b"HTTP/1.0 500 X\r\n\r\nwhy(end)"]
    assert await exchange(connections) == Response(500, {}, b"why(end)")


async def test_an_interim_response_is_skipped(backend: Backend, connections: AppConnections) -> None:
    backend.replies = [b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 P\r\ndate: x\r\n\r\n" + OK, OK]
    assert await exchange(connections) == Response(200, {})
    assert await exchange(connections) == Response(200, {})
    assert backend.connections == 1


async def test_of_an_endless_body_only_the_beginning_is_read(
    backend: Backend, connections: AppConnections
) -> None:
    backend.replies = [b"HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n" + b"x" * (LONGEST_BODY + 1), OK]
    assert await exchange(connections) == Response(200, {}, b"x" * 2000)
    assert await exchange(connections) == Response(200, {})
    assert backend.connections == 2


@pytest.mark.parametrize(
    "reply",
    [
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 20000,
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 101 + b"content-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        CHUNKED + b"0\r\nx: " + b"y" * 100_000,
        CHUNKED + b"0\r\n" + b"y" * 100_000,
        CHUNKED + b"1;" + b"y" * 100_000,
    ],
)
async def test_what_is_not_http_or_has_no_end_is_refused(
    backend: Backend, connections: AppConnections, reply: bytes
) -> None:
    backend.replies = [reply]
    assert await exchange(connections) is NoResponse.NOT_HTTP
    assert connections.take() is None


async def test_a_body_in_tiny_chunks_is_read(backend: Backend, connections: AppConnections) -> None:
    backend.replies = [CHUNKED + b"1\r\nx\r\n" * 30_000 + b"0\r\n\r\n"]
    assert await exchange(connections) == Response(200, {}, b"x" * 2000)
    assert connections.take() is not None


@pytest.mark.parametrize("reply", [None, b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n(end)"])
async def test_a_connection_that_breaks_is_reported(
    backend: Backend, connections: AppConnections, reply: bytes | None
) -> None:
    backend.replies = [reply]
    assert await exchange(connections) is NoResponse.BROKEN
    assert connections.take() is None


async def test_a_silent_app_is_given_up_after_the_timeout(
    backend: Backend, connections: AppConnections
) -> None:
    backend.replies = [b"HTTP/1.1 200 OK\r\n"]
    assert await exchange(connections, 0.05) is NoResponse.TIMEOUT
    assert connections.take() is None


async def test_bytes_without_a_request_close_the_connection(
    backend: Backend, connections: AppConnections
) -> None:
    connection = await connections.open()
    connections.give_back(connection)
    connection.data_received(OK)
    assert connections.take() is None


async def test_an_idle_connection_is_closed_before_a_server_would(
    backend: Backend, connections: AppConnections
) -> None:
    backend.replies = [OK]
    await exchange(connections)
    connection = connections.take()
    assert connection is not None
    connections.give_back(connection)
    await eventually(lambda: not connection.is_open)
    assert connections.take() is None
