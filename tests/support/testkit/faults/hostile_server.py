"""A server that speaks the protocol and answers each script and command with what a test chooses."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache
from typing import Any

from claimq.redis_store.scripts import script
from testkit.faults.foreign_port import foreign_port
from testkit.programs.peak_memory import peak_of
from testkit.repository.tree import ROOT
from testkit.servers.resp import Incomplete, parse

NOW = 1_795_000_000_000
PAGE = 1000
STALLED = object()
"""An answer that does not come."""
Answer = Callable[[list[bytes]], Any]
"""Of the words of a call: the script's arguments, or a command with its arguments."""


@cache
def _names() -> dict[bytes, str]:
    lua = ROOT / "core" / "src" / "claimq" / "redis_store" / "lua"
    return {script(path.stem).sha.encode(): path.stem for path in lua.glob("*.lua")}


class Encoded(bytes):
    """A reply in RESP2, for one that many servers return."""


def encoded(value: Any) -> bytes:
    """A reply in RESP2."""
    if isinstance(value, Encoded):
        return value
    if value is None:
        return b"$-1\r\n"
    if isinstance(value, int):
        return b":%d\r\n" % value
    if isinstance(value, list):
        return _list(value)  # pyright: ignore[reportUnknownArgumentType]  # checked above
    data = value.encode() if isinstance(value, str) else value
    return b"$%d\r\n%s\r\n" % (len(data), data)


def _list(values: list[Any]) -> bytes:
    return b"*%d\r\n" % len(values) + b"".join(map(encoded, values))


def snapshot_reply(
    main: int = 0, busy: int = 0, delayed: int = 0, failed: int = 0, now: int = NOW
) -> list[Any]:
    """What the script for a snapshot returns for one queue, without pause, limits and counters."""
    since = str(now) if busy else ""
    held_back: list[Any] = [0, [], "", "", ""]
    return [[now, main, busy, delayed, failed, "", since, "", "", held_back, 0, "", "", 0, [], [], [], b""]]


def ordinary(name: str, words: list[bytes]) -> Any:
    """What an empty queue with one claim would return."""
    replies: dict[str, Any] = {
        "snapshot": snapshot_reply(busy=1),
        "trial": ["OK"],
        "own": ["OK", words[0] + b" 1" if words else b""],
        "reap": ["OK", 0, 0, 0, 0],
        "repair": ["OK", 0, 0],
        "damage": [],
        "failed_reasons": [0],
        "configure": ["OK"],
        "pause": ["OK", 0],
        "workers": [],
        "HGETALL": [],
        "ZSCORE": None,
        "HGET": None,
        "HLEN": 0,
        "ZADD": 1,
        "INFO": "redis_version:7.2.0\r\nredis_mode:standalone\r\naof_enabled:1\r\nused_memory:1\r\n",
        "CONFIG": ["appendfsync", "always"],
    }
    return replies.get(name, "OK" if name.isupper() else ["OK"])


@asynccontextmanager
async def hostile_server(answers: dict[str, Answer]) -> AsyncGenerator[str]:
    """The URL of the server. ``answers``: by the name of a script or command; others are answered as ``ordinary``."""

    def reply(words: list[bytes]) -> Any:
        name = words[0].decode().upper()
        if name in ("EVALSHA", "EVAL"):
            name, words = _names()[words[1]], words[3 + int(words[2]) :]
        else:
            words = words[1:]
        return answers[name](words) if name in answers else ordinary(name, words)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        buffer = b""
        while got := await reader.read(65536):
            buffer += got
            while buffer:
                try:
                    words, end = parse(buffer)
                except Incomplete:
                    break
                buffer = buffer[end:]
                answer = reply(words)  # type: ignore[arg-type]  # a request is a list of words
                if answer is not STALLED:
                    writer.write(encoded(answer))
                await writer.drain()

    async with foreign_port(serve) as address:
        yield f"redis://{address}"


def endless() -> dict[str, Answer]:
    """A full page after every page."""
    number = iter(range(10**12))

    def name() -> str:
        return f"{next(number):0100d}"

    def workers(_: list[bytes]) -> list[Any]:
        return [word for _ in range(PAGE) for word in (name(), str(NOW), 1)]

    def walk(_: list[bytes]) -> list[Any]:
        return ["OK", f"1 1 {NOW} 0 1 1"]

    return {
        "workers": workers,
        "clients": lambda _: [0, *(word for _ in range(PAGE) for word in (name(), 1))],
        "held": lambda _: ["1", *(f"w/{next(number)}.nonce" for _ in range(PAGE))],
        "ZRANGEBYSCORE": lambda _: [
            word for _ in range(PAGE) for word in (f"1 1 {name()} w", str(next(number)))
        ],
        "LRANGE": lambda _: [name() for _ in range(PAGE)],
        "ZRANGE": lambda words: [name() for _ in range(int(words[1]), int(words[2]) + 1)],
        "items": lambda _: [1],
        "peek": lambda _: [1],
        "longest": lambda _: [1, "0", "0"],
        "find": lambda _: ["NEXT", 0, 1],
        "explain": lambda _: ["OK", 0, 1, 1],
        "recount": lambda _: ["OK", 0, 1, 1],
        "release_worker": lambda _: ["OK", "1 0 0 0 1"],
        "delete": lambda _: ["OK", "0 0 0 0 1"],
        "flush": lambda _: ["OK", "0 0 0 0 1"],
        "requeue_failed": walk,
        "remove_failed": walk,
        "failed_page": lambda _: [f"1 1 {NOW} 0 1 1"],
        "give_back": lambda words: ["OK", "later " * int(words[9])],
    }


async def peak_beside(
    answers: Callable[[int], dict[str, Answer]],
    count: int,
    module: str,
    *urls: str,
    until: Callable[[], Awaitable[object]],
) -> int:
    """As :func:`peak_of`, of a program that also gets the URLs of so many servers, which answer by their number."""
    async with AsyncExitStack() as stack:
        servers = [
            await stack.enter_async_context(hostile_server(answers(number))) for number in range(count)
        ]
        return await peak_of(module, *servers, *urls, until=until)
