"""GET requests to a sidecar, over its Unix socket or its health port."""

from __future__ import annotations

import asyncio
from pathlib import Path

from claimq_cli.failures import CommandError

LONGEST_ANSWER = 1024 * 1024
OK = 200
UNAVAILABLE = 503


class NoAnswer(CommandError):
    """The sidecar gave no answer, or one that is not HTTP."""


async def get(place: Path | int, path: str, *, timeout: float = 2.0) -> tuple[int, bytes]:
    """Status and body of one GET on a socket (its path) or a loopback port. NoAnswer within ``timeout`` seconds."""
    try:
        async with asyncio.timeout(timeout):
            return await _get(place, path)
    except (OSError, TimeoutError, ValueError, IndexError, asyncio.IncompleteReadError) as error:
        raise NoAnswer(f"GET {path}: {error or type(error).__name__}") from error


async def _get(place: Path | int, path: str) -> tuple[int, bytes]:
    if isinstance(place, int):
        reader, writer = await asyncio.open_connection("127.0.0.1", place)
    else:
        reader, writer = await asyncio.open_unix_connection(place)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        await writer.drain()
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        status = int(head.split(b" ", 2)[1])
        is_chunked = b"\r\ntransfer-encoding: chunked\r\n" in head
        return status, await (_chunks(reader) if is_chunked else reader.read(LONGEST_ANSWER))
    finally:
        writer.close()


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int(await reader.readline(), 16):
        if len(body) + size > LONGEST_ANSWER:
            raise ValueError("the answer is too long")
        body += (await reader.readexactly(size + 2))[:size]
    return body
