"""Clients that send or read too slowly, with limits of milliseconds."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import ClassVar

from claimq_sidecar.claims.client import Connection
from claimq_sidecar.http.connection.listening import open_app_socket
from claimq_sidecar.http.connection.protocol import BoundedProtocol
from claimq_sidecar.http.router import App, Exchange, HttpServer
from testkit.waiting import PATIENCE

LONG = b"x" * 10_000_000


class Impatient(BoundedProtocol):
    """Closes a connection at once whose client does not read."""

    unread_seconds: ClassVar[float] = 0.01


class Api:
    """One path that takes a body and returns a long one."""

    def __init__(self) -> None:
        self.seen: asyncio.Queue[Connection] = asyncio.Queue()

    async def answer(self, exchange: Exchange) -> None:
        await exchange.body()
        await self.seen.put(exchange.connection)
        await exchange.reply(LONG)


@asynccontextmanager
async def serving(
    path: Path, protocol: type[BoundedProtocol], body_seconds: float = PATIENCE
) -> AsyncGenerator[Api]:
    api = Api()
    app = App({"/": {"POST": api.answer}}, 1000, body_seconds=body_seconds)
    with closing(open_app_socket(path, 0o600)) as app_socket:
        server = HttpServer(app, app_socket.listening, protocol, idle=60)
        await server.start()
        try:
            yield api
        finally:
            await server.stop()


async def test_a_client_that_reads_nothing_of_its_response_is_cut_off(tmp_path: Path) -> None:
    async with serving(tmp_path / "s", Impatient) as api:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(tmp_path / "s"))
            client.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n")
            async with asyncio.timeout(PATIENCE):
                connection = await api.seen.get()
            async with asyncio.timeout(PATIENCE):
                await connection.gone.wait()


async def test_a_client_that_reads_gets_the_whole_response(tmp_path: Path) -> None:
    async with serving(tmp_path / "s", BoundedProtocol):
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "s"))
        writer.write(b"POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
        async with asyncio.timeout(PATIENCE):
            answer = await reader.read()
        assert answer.endswith(LONG)
        writer.close()


async def test_a_body_that_does_not_arrive_in_time_is_answered_with_408(tmp_path: Path) -> None:
    async with serving(tmp_path / "s", BoundedProtocol, body_seconds=0.01):
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "s"))
        writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{")
        async with asyncio.timeout(PATIENCE):
            answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"urn:claimq:problem:body-too-slow" in answer
        writer.close()
