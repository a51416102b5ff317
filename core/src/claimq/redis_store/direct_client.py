"""Scripts and waits made on the client library's connections directly.

Its client wraps every call in a pool with a lock, a retry and telemetry, which costs the caller two to three times what
its connection alone costs, and a waiting claim pays that three times. Its connections, with all they know of TLS,
logging in, databases and Sentinel, are a public part of the library; here each serves one call at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any

from redis.asyncio.connection import DefaultParser
from redis.exceptions import ConnectionError as Disconnected
from redis.exceptions import ResponseError

pack: Any  # the client library's asynchronous connections would pack in Python, word by word
try:
    from hiredis import pack_command as pack
except ImportError:
    pack = None

Word = str | bytes | int | float

_PIECE = 65536
"""Bytes of a command that are sent at a time; each that has gone is a sign of life."""


class Silence:
    """Ends a call after so many seconds without a byte sent or received, not after so many in all: a large reply over a
    slow link takes its time."""

    __slots__ = ("_limit", "_longest")

    def __init__(self, limit: asyncio.Timeout, longest: float) -> None:
        self._limit = limit
        self._longest = longest

    def broken(self) -> None:
        """Something was sent or received: the silence begins again."""
        end, now = self._limit.when(), asyncio.get_running_loop().time()
        # Not for every byte: a quick call leaves its timer alone.
        if end is not None and now + 0.9 * self._longest > end and not self._limit.expired():
            self._limit.reschedule(now + self._longest)


_silence: ContextVar[Silence | None] = ContextVar("silence of the call that is read", default=None)


class ListeningParser(DefaultParser):  # type: ignore[misc, valid-type, unused-ignore]  # chosen by the library
    """The client library's parser, which notes that something came."""

    async def read_from_socket(self) -> Any:
        """As the library's."""
        got = await super().read_from_socket()
        if (silence := _silence.get()) is not None:
            silence.broken()
        return got


class DirectClient:
    """The client library's client for one server, with scripts and waits made directly. Nothing is sent twice here."""

    def __init__(self, client: Any, *, reply_timeout: float, most: int) -> None:
        self._client = client
        self._reply_timeout = reply_timeout
        self._most = most
        self._free: list[Any] = []
        self._room = asyncio.Semaphore(most)
        self._generation = 0
        self._open: set[Any] = set()

    async def evalsha(self, sha: str, numkeys: int, *words: Word) -> Any:
        """Runs a script by its hash. Raises the client library's errors, TimeoutError, OSError."""
        return await self._call(("EVALSHA", sha, numkeys, *words), self._reply_timeout)

    async def eval(self, text: str, numkeys: int, *words: Word) -> Any:
        """Runs a script by its text. Raises as :meth:`evalsha`."""
        return await self._call(("EVAL", text, numkeys, *words), self._reply_timeout)

    async def ping(self) -> Any:
        """One round trip on a connection that is then there for the next call. Raises as :meth:`evalsha`."""
        return await self._call(("PING",), self._reply_timeout)

    async def blpop(self, keys: Sequence[str], timeout: float) -> Any:
        """Waits on a connection of its own for as long as it takes. Cancelled, it closes that connection."""
        return await self._call(("BLPOP", *keys, timeout), timeout + self._reply_timeout)

    async def evalsha_after_blpop(
        self, key: str, timeout: float, sha: str, numkeys: int, *words: Word
    ) -> Any:
        """Waits as :meth:`blpop` and, as soon as that is over, runs a script by its hash; returns the script's reply.

        The script is sent when the wait has been answered, never before: nothing is claimed for a connection that has
        died unnoticed.
        """
        script = ("EVALSHA", sha, numkeys, *words)
        return await self._call(("BLPOP", key, timeout), timeout + self._reply_timeout, then=script)

    async def plain(self, *words: Word) -> Any:
        """A command whose reply needs no reading, on a connection that scripts use. Raises as :meth:`evalsha`."""
        return await self._call(words, self._reply_timeout)

    async def execute_command(self, *words: Word, **options: Any) -> Any:
        """Any other command, in the client library's way and with its reading of the reply."""
        return await self._client.execute_command(*words, **options)

    def pipeline(self, *, transaction: bool) -> Any:
        """Commands that are sent together on one connection, in the client library's way."""
        return self._client.pipeline(transaction=transaction)

    async def _call(
        self, words: Sequence[Word], seconds: float, *, then: Sequence[Word] | None = None
    ) -> Any:
        generation = self._generation
        await self._enter()
        connection: Any = None
        try:
            async with asyncio.timeout(seconds) as limit:
                silence = Silence(limit, self._reply_timeout)
                _silence.set(silence)
                connection = self._free.pop() if self._free else await self._connected()
                # Both are packed before the wait: the second is then sent the sooner.
                commands = [_packed(connection, one) for one in (words, then) if one is not None]
                reply: Any = None
                for command in commands:
                    for piece in _pieces(command):
                        await connection.send_packed_command(piece, check_health=False)
                        silence.broken()
                    reply = await connection.read_response(disable_decoding=True)
        except ResponseError:
            await self._give(connection, generation)
            raise
        except BaseException:
            await self._drop(connection)
            raise
        finally:
            _silence.set(None)
            self._room.release()
        await self._give(connection, generation)
        return reply

    async def _enter(self) -> None:
        if not self._room.locked():
            await self._room.acquire()  # does not wait
            return
        try:
            async with asyncio.timeout(self._reply_timeout):
                await self._room.acquire()
        except TimeoutError as error:
            raise Disconnected(f"{self._most} connections are in use; make fewer calls at once") from error

    async def _connected(self) -> Any:
        connection = self._client.connection_pool.make_connection()
        connection.socket_timeout = None  # every call has its own
        self._open.add(connection)
        try:
            await connection.connect()
        except BaseException:
            await self._drop(connection)
            raise
        return connection

    async def _give(self, connection: Any, generation: int) -> None:
        """Keeps a connection for the next call, unless it is from before a fault, or broken."""
        if connection is None:
            return
        if generation == self._generation and connection.is_connected:
            self._free.append(connection)
        else:
            await self._drop(connection)

    async def _drop(self, connection: Any) -> None:
        """Closes a connection on which a reply may still come, or that is not trusted."""
        if connection is not None:
            self._open.discard(connection)
            await connection.disconnect(nowait=True)

    @property
    def connection_pool(self) -> Any:
        """The client library's own connections, for what is not made directly."""
        return self._client.connection_pool

    async def forget(self) -> None:
        """After a fault no kept connection is trusted: the next call makes a new one. Calls under way go on."""
        self._generation += 1
        free, self._free = self._free, []
        for connection in free:
            await self._drop(connection)

    async def aclose(self) -> None:
        """Closes all connections; calls under way end with Disconnected."""
        self._generation += 1
        free, self._free = self._free, []
        self._open.difference_update(free)
        # Idle ones can be waited for: TLS says goodbye, and the loop may be closed right after this.
        await asyncio.gather(*(connection.disconnect() for connection in free), return_exceptions=True)
        for connection in list(self._open):
            await self._drop(connection)
        await self._client.aclose()
        pool = self._client.connection_pool
        await pool.disconnect()
        for sentinel in getattr(getattr(pool, "sentinel_manager", None), "sentinels", ()):
            await sentinel.aclose()


def _packed(connection: Any, words: Sequence[Word]) -> Any:
    return pack(tuple(words)) if pack else connection.pack_command(*words)


def _pieces(command: Any) -> Iterator[Any]:
    if not isinstance(command, bytes) or len(command) <= _PIECE:
        yield command
        return
    for start in range(0, len(command), _PIECE):
        yield command[start : start + _PIECE]
