"""Connections of the web page whose clients send or read nothing: others are served."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack, suppress

import pytest
from starlette.types import Receive, Scope, Send

from claimq_web import server
from testkit.waiting import PATIENCE

UNSENT = b"POST /form HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n"
UNREAD = b"GET /parts HTTP/1.1\r\nhost: x\r\n\r\n"
WRITTEN = b"GET /whole HTTP/1.1\r\nhost: x\r\n\r\n"
LARGE = b"x" * 100_000


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Reads the body, and answers with one part, or with two, so that the client has to read the first of them."""
    while (await receive()).get("more_body"):
        pass
    body = b"" if scope["path"] == "/small" else LARGE
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body, "more_body": scope["path"] == "/parts"})
    if scope["path"] == "/parts":
        await send({"type": "http.response.body", "body": body})


@pytest.mark.parametrize("count", [server._MOST_REQUESTS + 10, server._MOST_CONNECTIONS + 10])
@pytest.mark.parametrize("request_", [UNSENT, UNREAD, WRITTEN])
async def test_clients_that_do_not_send_or_read_a_body_keep_no_others_out(
    request_: bytes, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_REQUEST_SECONDS", PATIENCE)  # also for a head that this process sends late
    with ExitStack() as sockets:
        listening = sockets.enter_context(socket.create_server(("127.0.0.1", 0), backlog=128))
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # of its connections too
        listening.setblocking(False)
        port = listening.getsockname()[1]
        async with server.served(app, listening), asyncio.timeout(PATIENCE):
            for _ in range(count):
                slow = sockets.enter_context(socket.socket())
                slow.setblocking(False)
                slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
                await asyncio.get_running_loop().sock_connect(slow, ("127.0.0.1", port))
                await asyncio.get_running_loop().sock_sendall(slow, request_)
            for _ in range(3):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"GET /small HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
                assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
                writer.close()


async def test_responses_that_are_not_read_take_a_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_MOST_UNREAD", 10 * len(LARGE))
    loop = asyncio.get_running_loop()
    with ExitStack() as sockets:
        listening = sockets.enter_context(socket.create_server(("127.0.0.1", 0), backlog=128))
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # of its connections too
        listening.setblocking(False)
        async with server.served(app, listening), asyncio.timeout(PATIENCE):
            slow = [sockets.enter_context(socket.socket()) for _ in range(40)]
            for one in slow:
                one.setblocking(False)
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
                await loop.sock_connect(one, listening.getsockname())
                await loop.sock_sendall(one, WRITTEN)
                await loop.sock_recv(one, 1)  # its response has begun
            sizes = await asyncio.gather(*map(rest_of, slow))
    assert 0 < sum(size > len(LARGE) for size in sizes) < 20  # a part of each is in the sockets


async def rest_of(connection: socket.socket) -> int:
    """The number of bytes until a response has come whole or its connection is closed."""
    received = 0
    with suppress(ConnectionResetError):
        while received <= len(LARGE) and (
            part := await asyncio.get_running_loop().sock_recv(connection, 65536)
        ):
            received += len(part)
    return received


async def test_health_is_answered_while_all_requests_are_in_progress(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "_REQUEST_SECONDS", PATIENCE)
    ends, begun = asyncio.Event(), asyncio.Semaphore(0)

    async def busy(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] != "/healthz":
            begun.release()
            await ends.wait()
        await app({**scope, "path": "/small"}, receive, send)

    async def status(path: str) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        return answer[9:12]

    with ExitStack() as sockets:
        listening = sockets.enter_context(socket.create_server(("127.0.0.1", 0), backlog=512))
        listening.setblocking(False)
        port = listening.getsockname()[1]
        async with server.served(busy, listening), asyncio.timeout(PATIENCE):
            held = [asyncio.create_task(status("/held")) for _ in range(server._MOST_REQUESTS)]
            for _ in held:
                await begun.acquire()
            assert await status("/more") == b"503"
            for _ in range(3):
                assert await status("/healthz") == b"200"
            ends.set()
            assert set(await asyncio.gather(*held)) == {b"200"}


async def test_no_connection_outlives_the_server() -> None:
    loop = asyncio.get_running_loop()
    with ExitStack() as sockets:
        listening = sockets.enter_context(socket.create_server(("127.0.0.1", 0)))
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # of its connections too
        listening.setblocking(False)
        slow = sockets.enter_context(socket.socket())
        slow.setblocking(False)
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        async with server.served(app, listening), asyncio.timeout(PATIENCE):
            await loop.sock_connect(slow, listening.getsockname())
            await loop.sock_sendall(slow, WRITTEN)
            begin = await loop.sock_recv(slow, 1)
        received = len(begin)
        with suppress(ConnectionResetError):
            while part := await loop.sock_recv(slow, 65536):
                received += len(part)
    assert 0 < received < len(LARGE)
