"""A small HTTP client for the sidecar's Unix socket and health port."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from claimq_admin.errors import CommandError
from claimq_process.names import WAITS_FOR_APP

LONGEST_ANSWER = 1024 * 1024
OK = 200
UNAVAILABLE = 503


class NoAnswer(CommandError):
    """The sidecar did not answer, or not in HTTP."""


async def get(address: Path | int, path: str, *, timeout: float = 2.0) -> tuple[int, bytes]:
    """GET on a socket (its path) or a loopback port; returns status and body. NoAnswer after ``timeout`` seconds."""
    return await _ask(address, f"GET {path}", "", timeout)


async def app_trouble(port: int) -> str | None:
    """Why the sidecar cannot send items to its app; empty if it can, or if the app asks for them. None while the
    sidecar itself is not ready."""
    try:
        status, body = await get(port, "/readyz")
        answer = json.loads(body)
    except (NoAnswer, ValueError):
        return None
    if status == OK:
        return ""
    return str(answer["why"]) if answer.get("status") == WAITS_FOR_APP else None


async def begin_drain(port: int, key: str, *, timeout: float) -> tuple[int, bytes]:
    """Starts a drain; returns once the sidecar claims nothing more. NoAnswer after ``timeout`` seconds."""
    return await _ask(port, "POST /drain", f"{_drain_headers(key)}Prefer: respond-async\r\n", timeout)


async def drain(port: int, key: str, *, timeout: float) -> tuple[int, bytes]:
    """Drains the sidecar; returns when it holds no claim. NoAnswer after ``timeout`` seconds."""
    return await _ask(port, "POST /drain", _drain_headers(key), timeout)


def _drain_headers(key: str) -> str:
    return f"Claimq-Lifecycle-Key: {key}\r\nContent-Length: 0\r\n"


async def _ask(address: Path | int, request: str, headers: str, timeout: float) -> tuple[int, bytes]:
    try:
        async with asyncio.timeout(timeout):
            return await _exchange(address, request, headers)
    except (OSError, TimeoutError, ValueError, IndexError, asyncio.IncompleteReadError) as error:
        raise NoAnswer(f"{request}: {error or type(error).__name__}") from error


async def _exchange(address: Path | int, request: str, headers: str) -> tuple[int, bytes]:
    if isinstance(address, int):
        reader, writer = await asyncio.open_connection("127.0.0.1", address)
    else:
        reader, writer = await asyncio.open_unix_connection(address)
    try:
        head = f"{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n"
        writer.write(head.encode())
        await writer.drain()
        reply = (await reader.readuntil(b"\r\n\r\n")).lower()
        status = int(reply.split(b" ", 2)[1])
        is_chunked = b"\r\ntransfer-encoding: chunked\r\n" in reply
        return status, await (_chunks(reader) if is_chunked else _rest(reader))
    finally:
        writer.close()


async def _rest(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while part := await reader.read(LONGEST_ANSWER):
        body += part
        if len(body) > LONGEST_ANSWER:
            raise ValueError("the answer is too long")
    return body


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int(await reader.readline(), 16):
        if len(body) + size > LONGEST_ANSWER:
            raise ValueError("the answer is too long")
        body += (await reader.readexactly(size + 2))[:size]
    return body
