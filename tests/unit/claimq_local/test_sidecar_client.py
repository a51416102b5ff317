"""Asking a sidecar: over a socket or a port, with answers of every kind, always within the time."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from claimq_local.workers.sidecar_client import LONGEST_ANSWER, NoAnswer, get
from testkit.waiting import PATIENCE

LONG = 300 * 1024
PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 503 No\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nnot\r\n4\r\n now\r\n0\r\n\r\n"


@asynccontextmanager
async def serving(socket: Path, answer: bytes, *, closes: bool = True) -> AsyncGenerator[list[bytes]]:
    asked: list[bytes] = []
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            asked.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(answer)
            await writer.drain()
            if not closes:
                await reader.read()
        finally:
            writer.close()
            ended.set()

    server = await asyncio.start_unix_server(serve, socket)
    try:
        yield asked
    finally:
        async with asyncio.timeout(PATIENCE):
            await ended.wait()
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize(("answer", "found"), [(PLAIN, (200, b"ok")), (CHUNKED, (503, b"not now"))])
async def test_an_answer_is_its_status_and_its_body(
    tmp_path: Path, answer: bytes, found: tuple[int, bytes]
) -> None:
    async with serving(tmp_path / "s", answer) as asked:
        assert await get(tmp_path / "s", "/readyz", timeout=PATIENCE) == found
    assert asked[0].startswith(b"GET /readyz HTTP/1.1\r\nHost: ")


async def test_a_long_answer_is_read_to_its_end(tmp_path: Path) -> None:
    async with serving(tmp_path / "s", b"HTTP/1.1 200 OK\r\n\r\n" + b"m" * LONG):
        assert await get(tmp_path / "s", "/metrics", timeout=PATIENCE) == (200, b"m" * LONG)


async def test_an_answer_beyond_the_limit_is_an_error(tmp_path: Path) -> None:
    async with serving(tmp_path / "s", b"HTTP/1.1 200 OK\r\n\r\n" + b"m" * (LONGEST_ANSWER + 1)):
        with pytest.raises(NoAnswer, match="the answer is too long"):
            await get(tmp_path / "s", "/metrics", timeout=PATIENCE)


@pytest.mark.parametrize("answer", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\n", CHUNKED[:-9]])
async def test_what_is_no_answer_is_one_error(tmp_path: Path, answer: bytes) -> None:
    async with serving(tmp_path / "s", answer):
        with pytest.raises(NoAnswer):
            await get(tmp_path / "s", "/readyz")


async def test_a_missing_sidecar_and_a_silent_one_are_the_same_error(tmp_path: Path) -> None:
    with pytest.raises(NoAnswer):
        await get(tmp_path / "s", "/readyz")
    async with serving(tmp_path / "s", b"", closes=False):
        with pytest.raises(NoAnswer):
            await get(tmp_path / "s", "/readyz", timeout=0.3)
