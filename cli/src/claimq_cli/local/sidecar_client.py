"""Requests to a sidecar, over its Unix socket or its health port."""

from __future__ import annotations

import asyncio
from pathlib import Path

from claimq_cli.errors import CommandError

LONGEST_ANSWER = 1024 * 1024
OK = 200
UNAVAILABLE = 503


class NoAnswer(CommandError):
    """The sidecar gave no answer, or one that is not HTTP."""


async def get(place: Path | int, path: str, *, timeout: float = 2.0) -> tuple[int, bytes]:
    """Status and body of one GET on a socket (its path) or a loopback port. NoAnswer within ``timeout`` seconds."""
    return await _ask(place, f"GET {path}", "", timeout)


async def drain(port: int, key: str, *, timeout: float) -> tuple[int, bytes]:
    """Asks the sidecar on this health port to drain; answered when nothing is in hand. NoAnswer within ``timeout``."""
    return await _ask(port, "POST /drain", f"Claimq-Lifecycle-Key: {key}\r\nContent-Length: 0\r\n", timeout)


async def _ask(place: Path | int, what: str, headers: str, timeout: float) -> tuple[int, bytes]:
    try:
        async with asyncio.timeout(timeout):
            return await _exchange(place, what, headers)
    except (OSError, TimeoutError, ValueError, IndexError, asyncio.IncompleteReadError) as error:
        raise NoAnswer(f"{what}: {error or type(error).__name__}") from error


async def _exchange(place: Path | int, what: str, headers: str) -> tuple[int, bytes]:
    if isinstance(place, int):
        reader, writer = await asyncio.open_connection("127.0.0.1", place)
    else:
        reader, writer = await asyncio.open_unix_connection(place)
    try:
        head = f"{what} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n"
        writer.write(head.encode())
        await writer.drain()
        reply = (await reader.readuntil(b"\r\n\r\n")).lower()
        status = int(reply.split(b" ", 2)[1])
        is_chunked = b"\r\ntransfer-encoding: chunked\r\n" in reply
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
